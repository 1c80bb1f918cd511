package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// Stats doesn't wait for a commit that never ends.
func TestStatsWhileACommitHangs(t *testing.T) {
	t.Parallel()
	f, committing, hang := new(faults), make(chan struct{}), make(chan struct{})
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect})
	f.set(func(query string) error {
		if strings.HasPrefix(query, "COMMIT") {
			close(committing)
			<-hang
		}
		return nil
	})
	filled := make(chan error)
	go func() { filled <- fill(s, 0, 20) }()
	<-committing
	if stats, err := s.Stats(context.Background()); err != nil || stats.Bytes <= 0 {
		t.Errorf("got %+v, %v", stats, err)
	}
	close(hang)
	if err := <-filled; err != nil {
		t.Error(err)
	}
}

// The size includes the journal.
func TestStatsOfTheJournal(t *testing.T) {
	t.Parallel()
	if !HasJournal {
		t.Skip("skipped: there is no journal on this platform")
	}
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db")})
	stats, err := s.Stats(context.Background())
	if size := sizeOf(s.options.Path + chargesSuffix); err != nil || stats.JournalBytes != size || size == 0 || stats.Bytes <= size {
		t.Errorf("got %+v, %v, want a journal of %d bytes", stats, err, size)
	}
}
