package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/internal/testing/wrongclock"
	"github.com/caddy-tally/caddy-tally/storage"
)

// silentClock is a steady clock after some time without calls.
type silentClock struct {
	steadyClock
	passed time.Duration
}

func (c silentClock) Read() storage.Reading {
	r := c.steadyClock.Read()
	r.Wall, r.Steady = r.Wall+int64(c.passed), r.Steady+int64(c.passed)
	return r
}

// A server whose clock jumps by more than machines stay forgets them, and one that returns from an
// outage may have another clock. Neither changes the time, nor do machines that were silent for
// longer than their steady clock proves alone.
func TestServerClockJumps(t *testing.T) {
	forgotten, jumps := 0, 0
	for _, away := range []time.Duration{0, time.Minute} {
		for _, by := range []time.Duration{-3 * time.Hour, 3 * time.Hour, time.Hour, 400 * 24 * time.Hour}[:proof.Sample(2, 4)] {
			for _, restarts := range []bool{false, true} {
				jumps++
				if jumpOnce(t, away, by, restarts) {
					forgotten++
				}
			}
		}
	}
	if proof.Figure(t, "%d jumps of the server's clock, %d of which made it forget the machine", jumps, forgotten); forgotten < 4 {
		t.Error("too few jumps made the server forget the machine")
	}
}

// jumpOnce makes a server's clock jump, and reports whether the server forgot the machine.
func jumpOnce(t *testing.T, away, by time.Duration, restarts bool) (forgot bool) {
	t.Helper()
	clock := wrongclock.New(t)
	if clock == nil {
		t.Skip(wrongclock.Missing)
	}
	server := testserver.Redis(t)
	_ = os.Remove(filepath.Join(server.Folder, "dump.rdb"))
	server.Kill()
	server.Env = clock.Env()
	server.Run(t)
	open := Opener(at(server.Address()))
	s := openedBy(t, open)
	mustCharge(t, s, yearly(t), 5)
	before, err := s.Time(steadyClock{1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := clock.Set(by + away); err != nil {
		t.Fatal(err)
	}
	if restarts {
		server.Must(t, "SAVE")
		server.Kill()
		server.Run(t)
		_ = s.Close()
	}
	later := silentClock{steadyClock{1}, away}
	for range 4 { // the engine opens a store again that has lost something
		var now storage.Time
		if now, err = s.Time(later, 0); err == nil {
			if off := time.Duration(now.Now-before.Now) - away; off < -time.Second || off > time.Minute {
				t.Errorf("the time is off by %v after the clock was set by %v, away for %v, restarted: %v", off, by, away, restarts)
			}
			return forgot
		}
		forgot = forgot || errors.Is(err, storage.ErrLostWrites)
		_ = s.Close()
		if s, err = reopened(open); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
	}
	t.Errorf("the time can't be told after the clock was set by %v: %v", by, err)
	return forgot
}

func reopened(open storage.Opener) (*Store, error) {
	s, err := open(context.Background())
	if err != nil {
		return nil, err
	}
	return s.(*Store), nil
}
