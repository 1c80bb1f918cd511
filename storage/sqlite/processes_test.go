package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

func TestProcessesKnowOneAnother(t *testing.T) {
	t.Parallel()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "tally.db")
	a, b := opened(t, Options{Path: path}), opened(t, Options{Path: path})
	join := func(s *Store, id, now int64, want storage.Presence) {
		t.Helper()
		got, err := s.Join(ctx, id, now, now+100)
		if err != nil || got != want {
			t.Errorf("process %d at %d: %v, %v, want %v", id, now, got, err, want)
		}
	}
	join(a, 7, 1000, storage.Presence{Processes: 1, Process: 0})
	join(b, -3, 1050, storage.Presence{Processes: 2, Process: 0})
	join(a, 7, 1060, storage.Presence{Processes: 2, Process: 1})
	join(a, 7, 1149, storage.Presence{Processes: 2, Process: 1})
	join(a, 7, 1150, storage.Presence{Processes: 1, Process: 0}) // the other has not been seen for long enough
	join(b, -3, 1160, storage.Presence{Processes: 2, Process: 0})
	if err := a.Leave(ctx, 7); err != nil {
		t.Fatal(err)
	}
	join(b, -3, 1161, storage.Presence{Processes: 1, Process: 0})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Join(ctx, -3, 1, 2); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
}

// A process that is registered until long after the time to which the store was set back is
// forgotten.
func TestProcessesOfAnotherTimeAreForgotten(t *testing.T) {
	t.Parallel()
	ctx, s := context.Background(), opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db")})
	later := int64(10 * 365 * 24 * time.Hour)
	if _, err := s.Join(ctx, 1, later, later+100); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Join(ctx, 2, 1000, 1100); err != nil || got.Processes != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// A database has the mark of one secret. The mark is replaced when no other process is registered.
// A process whose mark was replaced at its start, before it was registered, can't join.
func TestMarkOfTheSecret(t *testing.T) {
	t.Parallel()
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "tally.db")
	a, b := opened(t, Options{Path: path}), opened(t, Options{Path: path})
	const none, x, y = 0, 1, 2
	mark := func(s *Store, now int64, own, former, kept int64) {
		t.Helper()
		if was, current, err := s.Mark(ctx, now, own); err != nil || was != former || current != kept {
			t.Errorf("at %d the mark was %v and is %v (%v), want %v and %v", now, was, current, err, former, kept)
		}
	}
	mark(a, 1000, x, none, x)
	mark(b, 1000, y, x, y)
	if _, err := a.Join(ctx, 1, 1000, 1100); !errors.Is(err, errMarked) {
		t.Errorf("the first of two that start at once joins: %v", err)
	}
	if _, err := b.Join(ctx, 2, 1000, 1100); err != nil {
		t.Error(err)
	}
	mark(a, 1001, x, y, y)
	if was, current, err := a.Mark(ctx, 1100); err != nil || was != y || current != y {
		t.Errorf("asking changes the mark %v to %v, %v", was, current, err)
	}
	mark(a, 1100, x, y, x) // the other has gone
	if was, current, err := a.Mark(ctx, 1100, y, x); err != nil || was != x || current != x {
		t.Errorf("a mark that is among those given changes from %v to %v, %v", was, current, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Join(ctx, 2, 1101, 1200); !errors.Is(err, errMarked) {
		t.Errorf("one whose mark was replaced meanwhile joins: %v", err)
	}
}
