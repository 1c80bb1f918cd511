package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// place is the place of a database, which may be replaced by another. A store whose database is
// gone fails.
type place struct {
	now   atomic.Pointer[disk]
	opens atomic.Int64
	fail  func(opens int64, claims []storage.Claim) error // may be nil
}

func (p *place) replace() { p.now.Store(newDisk()) }

func (p *place) open(context.Context) (storage.Store, error) {
	d, opens := p.now.Load(), p.opens.Add(1)
	return &hookedStore{disk: d, before: func(claims []storage.Claim) error {
		switch {
		case p.now.Load() != d:
			return errDisk
		case p.fail != nil:
			return p.fail(opens, claims)
		}
		return nil
	}}, nil
}

func (p *place) engine(t *testing.T) *fixture {
	f := newFixture(t, func(o *Options) {
		o.Clock, o.StoreTimeout, o.Open = nil, 100*time.Millisecond, p.open
		o.CleanupInterval = 1000 * time.Hour // nothing is forgotten meanwhile
	})
	synctest.Wait()
	return f
}

func (p *place) used(f *fixture, l *Limit, key string) int64 {
	return p.now.Load().used(l, key, f.clock.Now())
}

// atPlace runs f for limits of every kind, in virtual time.
func atPlace(t *testing.T, amount int64, f func(t *testing.T, p *place, limit *Limit)) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: 24 * time.Hour})
			bubble.Test(t, func(t *testing.T) {
				p := new(place)
				p.replace()
				f(t, p, limit)
			})
		})
	}
}

// askUntilInUse sends requests until the store is in use, and returns how many passed.
func (f *fixture) askUntilInUse(debits ...Debit) (allowed int) {
	for range 600 {
		allowed += f.count(1, debits...)
		if time.Sleep(100 * time.Millisecond); !f.committer.degraded.Load() {
			return allowed
		}
	}
	f.t.Fatal("degraded for a minute")
	return 0
}

// A limit holds even if its database is replaced by an empty one, and its unused units stay
// available.
func TestReplacedDatabase(t *testing.T) {
	atPlace(t, 10, func(t *testing.T, p *place, limit *Limit) {
		f := p.engine(t)
		passed := f.count(7, debit(limit, "a", 1))
		p.replace()
		passed += f.askUntilInUse(debit(limit, "a", 1))
		if used := p.used(f, limit, "a"); used != 7 {
			t.Errorf("%d are charged to the new database, want the 7 that memory knows", used)
		}
		if passed += f.count(20, debit(limit, "a", 1)); passed != 10 {
			t.Errorf("%d of 10 passed", passed)
		}
		f.Close(t.Context())
	})
}

// The lease of a key was charged to a database that is gone. Its units are free.
func TestLeasesOnAReplacedDatabase(t *testing.T) {
	atPlace(t, 10_000, func(t *testing.T, p *place, limit *Limit) {
		f := p.engine(t)
		f.count(20, debit(limit, "a", 1))
		if used := p.used(f, limit, "a"); used <= 20 {
			t.Fatalf("%d charged, want more than the 20 that were spent", used)
		}
		p.replace()
		f.askUntilInUse(debit(limit, "b", 1))
		if used := p.used(f, limit, "a"); used != 20 {
			t.Errorf("%d are charged to the new database, want the 20 that were spent", used)
		}
		passed := 20
		for range 10_000 {
			passed += f.count(1, debit(limit, "a", 1))
		}
		if passed != 10_000 {
			t.Errorf("%d of 10000 passed", passed)
		}
		f.Close(t.Context())
	})
}

// All units admitted while databases come and go count in the end.
func TestReplacedAgainAndAgain(t *testing.T) {
	atPlace(t, 100, func(t *testing.T, p *place, limit *Limit) {
		f := p.engine(t)
		passed := f.count(10, debit(limit, "a", 1))
		for range 10 {
			p.replace()
			passed += f.count(2, debit(limit, "a", 1))
			passed += f.askUntilInUse(debit(limit, "b", 1), debit(limit, "a", 1))
			if used := p.used(f, limit, "a"); used != int64(passed) {
				t.Fatalf("%d are charged, and %d have passed", used, passed)
			}
		}
		if passed += f.count(200, debit(limit, "a", 1)); passed > 100 {
			t.Errorf("%d of 100 passed", passed)
		}
		f.Close(t.Context())
	})
}

// A database that fails during a replay is replayed again.
func TestReplacedWhileBeingTold(t *testing.T) {
	atPlace(t, 10, func(t *testing.T, p *place, limit *Limit) {
		f := p.engine(t)
		for i := range 3 * flushSize {
			f.count(3, debit(limit, fmt.Sprint(i), 1))
		}
		broken := p.opens.Load() + 1 // its second batch fails
		p.fail = func(opens int64, claims []storage.Claim) error {
			if opens == broken && len(claims) > 1 && claims[0].Charge.Floor {
				return errDisk
			}
			return nil
		}
		p.replace()
		f.askUntilInUse(debit(limit, "b", 1))
		for i := range 3 * flushSize {
			if used := p.used(f, limit, fmt.Sprint(i)); used != 3 {
				t.Fatalf("%d of key %d are charged to the new database, want 3", used, i)
			}
		}
		f.Close(t.Context())
	})
}

// Processes on one database know the same units of a key, and charge them once.
func TestReplacedUnderTwoProcesses(t *testing.T) {
	atPlace(t, 10, func(t *testing.T, p *place, limit *Limit) {
		first, second := p.engine(t), p.engine(t)
		first.count(4, debit(limit, "a", 1))
		second.count(3, debit(limit, "a", 1))
		p.replace()
		for _, f := range []*fixture{first, second} {
			f.askUntilInUse(debit(limit, "b", 1))
		}
		most := int64(7)
		if limit.Algorithm() == limiter.TokenBucket {
			most++ // each process rounds up
		}
		if used := p.used(first, limit, "a"); used < 7 || used > most {
			t.Errorf("%d are charged to the new database, want 7", used)
		}
		first.Close(t.Context())
		second.Close(t.Context())
	})
}

// A database that is the same after an outage is not replayed: that would count old units as new
// ones.
func TestSameDatabaseAfterAnOutage(t *testing.T) {
	atPlace(t, 100, func(t *testing.T, p *place, limit *Limit) {
		f := p.engine(t)
		f.count(30, debit(limit, "a", 1))
		time.Sleep(20 * time.Hour)
		f.count(1, debit(limit, "a", 1)) // knows of 31, most of them old
		time.Sleep(5 * time.Hour)
		var failed atomic.Bool
		p.fail = func(int64, []storage.Claim) error {
			if failed.CompareAndSwap(false, true) {
				return errDisk
			}
			return nil
		}
		f.askUntilInUse(debit(limit, "b", 1))
		if !failed.Load() {
			t.Fatal("there was no outage")
		}
		if used := p.used(f, limit, "a"); used > 1+12 { // and the key's lease
			t.Errorf("%d are charged 25 hours after 30 and 5 after 1", used)
		}
		f.Close(t.Context())
	})
}

// A stop that finds the database replaced leaves a new one with the known usage.
func TestReplacedBeforeTheStop(t *testing.T) {
	atPlace(t, 10_000, func(t *testing.T, p *place, limit *Limit) {
		f := p.engine(t)
		f.count(20, debit(limit, "a", 1))
		p.replace()
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if used := p.used(f, limit, "a"); used != 20 {
			t.Errorf("%d are charged to the new database, want 20", used)
		}
	})
}

// Units admitted by memory in an outage are known after they are charged: to a caller that reads
// the quota, and to a database that replaces this one.
func TestDebtsAreKnownOnceTheyAreCharged(t *testing.T) {
	atPlace(t, 100, func(t *testing.T, p *place, limit *Limit) {
		var broken atomic.Bool
		p.fail = func(int64, []storage.Claim) error {
			if broken.Load() {
				return errDisk
			}
			return nil
		}
		f := p.engine(t)
		f.count(5, debit(limit, "a", 1))
		broken.Store(true)
		f.count(1, debit(limit, "b", 1))                 // detects it
		passed := 15 * f.count(1, debit(limit, "a", 15)) // more than the key's lease
		broken.Store(false)
		f.askUntilInUse(debit(limit, "b", 1))
		look := []Debit{debit(limit, "a", 0)}
		if f.ask(look...); look[0].Quota.Remaining != 95-int64(passed) || passed == 0 {
			t.Errorf("5 and then %d of 100 passed, and %d remain", passed, look[0].Quota.Remaining)
		}
		f.Close(t.Context())
	})
}
