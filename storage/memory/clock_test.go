package memory

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testClock is the clock of a process, set by tests.
type testClock struct {
	wall, steady int64
	source       byte
}

func (c *testClock) Read() storage.Reading {
	return storage.Reading{Wall: c.wall, Steady: c.steady, Source: storage.Source{c.source}, Shared: true}
}

func (c *testClock) advance(d time.Duration) {
	c.wall += int64(d)
	c.steady += int64(d)
}

// keeper opens a store that need not be closed.
func keeper(t *testing.T, db *Database) *Store {
	t.Helper()
	return opened(t, db, Options{}).(*Store)
}

// terms returns a term with the present time of the store.
func terms(t *testing.T, s *Store, c storage.Clock) *storage.Term {
	t.Helper()
	now, err := s.Time(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &storage.Term{Clock: c, Shift: now.Shift, Era: now.Era}
}

// The bytes add up when counts are forgotten because the time was set back, and the records of
// clients stay.
func TestBytesAddUpInAnotherEra(t *testing.T) {
	db, c := New(), &testClock{wall: start, source: 1}
	s, l := keeper(t, db), newLimit(t, limiter.Params{Amount: 3, Window: time.Minute})
	if _, err := claim(s, l, key(1), start); err != nil {
		t.Fatal(err)
	}
	if err := punish(s, key(2), start); err != nil {
		t.Fatal(err)
	}
	c.wall -= int64(100 * time.Hour)
	var term *storage.Term
	for range 3 {
		c.advance(time.Hour)
		term = terms(t, s, c)
	}
	if got, want := db.bytes, counted(db); term.Era != 1 || got != want || want == 0 {
		t.Errorf("in era %d %d bytes are said to be taken, the entries take %d", term.Era, got, want)
	}
	if sweepAll(t, s, term); len(db.shardOf(key(2)).clients) != 1 {
		t.Error("a record that says something was swept")
	}
}

// A key has only slots that count, however long it is in use.
func TestSlotsAreBounded(t *testing.T) {
	db, c := New(), &testClock{wall: start, source: 1}
	s, l := keeper(t, db), newLimit(t, limiter.Params{Amount: 1 << 30, Window: 100 * time.Millisecond})
	for range 1000 {
		c.advance(5 * time.Millisecond)
		grants := make([]limiter.Grant, 1)
		claims := []storage.Claim{{ID: 1, Key: key(1), Limit: l, Claim: limiter.Claim{Min: 1, Want: 1}}}
		if err := s.Claim(context.Background(), terms(t, s, c), claims, grants); err != nil {
			t.Fatal(err)
		}
	}
	if n := int64(len(db.State(1, key(1)).Slots)); n > l.Slots()+1 {
		t.Errorf("a key has %d slots, want at most %d", n, l.Slots()+1)
	}
}
