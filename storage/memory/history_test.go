package memory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// A full history records nothing until old points have been deleted.
func TestHistoryIsBounded(t *testing.T) {
	db := New()
	opened, err := db.Opener(Options{})(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s, now := opened.(*Store), int64(1_800_000_000e9)
	counted := func(number, now int64) int {
		t.Helper()
		m := storage.Minute{At: now, Series: storage.Series{Zone: "new"}, Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 1}}, Heaviest: []storage.HeavyKey{{Units: 1}}}
		if err := s.Report(context.Background(), now, storage.Report{Writer: 1, Number: number, Minutes: []storage.Minute{m}}); err != nil {
			t.Fatal(err)
		}
		points, err := s.History(context.Background(), storage.HistoryQuery{From: now, To: now + 1, Resolution: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return len(points)
	}
	if n := counted(1, now-int64(time.Hour)); n != 1 {
		t.Fatalf("an empty history has %d points of a minute", n)
	}
	history := side{opened.(*Store), &db.history, maxHistory}
	for i := 0; db.history.bytes < maxHistory; i++ {
		name := fmt.Sprintf("a\x80%019d", i)
		err := history.Update(context.Background(), "fill", []string{name}, func(rows map[string][]byte) { rows[name] = make([]byte, 1<<10) })
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := counted(2, now); n != 0 {
		t.Errorf("a full history has %d points of a new zone", n)
	}
	if err := s.Audit(context.Background(), storage.Audit, &storage.Act{At: now}); err != nil {
		t.Errorf("a full history prevents an act: %v", err)
	}
	later := now + int64(storage.KeepMinutes+time.Hour)
	for swept := (storage.Swept{More: true}); swept.More; {
		if swept, err = s.Sweep(context.Background(), storagetest.At(later)); err != nil {
			t.Fatal(err)
		}
	}
	if n := counted(3, later); n != 1 {
		t.Errorf("after the rows have expired there are %d points of a minute", n)
	}
}
