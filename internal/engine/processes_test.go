package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// sharedStore is a store that several processes use, one of which makes the claims of all fail.
type sharedStore struct {
	*hookedStore
	presence storage.Presence
}

func (s *sharedStore) Join(context.Context, int64, int64, int64) (storage.Presence, error) {
	return s.presence, nil
}

func (s *sharedStore) Leave(context.Context, int64) error { return nil }

// Processes that know of one another divide the reduced limit of an outage: together they admit 40
// % of the limit, rounded down, but at least one unit each.
func TestProcessesDivideALimitInAnOutage(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, c := range []struct{ amount, want int64 }{{1, 0}, {2, 0}, {3, 1}, {10, 4}, {100, 40}} {
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: c.amount, Window: 24 * time.Hour})
			for n := 2; n <= 4; n++ {
				bubble.Test(t, func(t *testing.T) {
					all := 0
					for process := range n {
						f := newFixture(t, func(o *Options) {
							o.Clock = nil
							o.Open = func(context.Context) (storage.Store, error) {
								broken := &hookedStore{disk: newDisk(), before: func([]storage.Claim) error { return errDisk }}
								return &sharedStore{broken, storage.Presence{Processes: n, Process: process}}, nil
							}
						})
						synctest.Wait()
						all += f.count(200, debit(limit, "a", 1))
						f.Close(context.Background())
					}
					if want := max(int(c.want), n); all != want {
						t.Errorf("%v: %d processes admit %d of %d, want %d", algorithm, n, all, c.amount, want)
					}
				})
			}
		}
	}
}

// In an outage of any length, a process admits its share of a limit in every window, and at least
// half of it, even if the whole limit was in use when the outage began. A bucket that was empty at
// that moment refills at once at the rate of the share; known usage in slots counts for a window.
func TestOutageAdmitsASteadyShare(t *testing.T) {
	for _, p := range []limiter.Params{
		{Algorithm: limiter.TokenBucket, Amount: 20, Window: time.Second, Burst: 50},
		{Algorithm: limiter.TokenBucket, Amount: 60, Window: time.Minute, Burst: 60},
		{Algorithm: limiter.TokenBucket, Amount: 100, Window: time.Hour, Burst: 1000},
		{Algorithm: limiter.Sliding, Amount: 40, Window: time.Minute},
		{Algorithm: limiter.Fixed, Amount: 40, Window: time.Minute},
	} {
		for _, presence := range []storage.Presence{{}, {Processes: 4, Process: 3}} {
			bubble.Test(t, func(t *testing.T) { testSteadyShare(t, newLimit(t, p), presence) })
		}
	}
}

func testSteadyShare(t *testing.T, limit *Limit, presence storage.Presence) {
	broken, d := false, newDisk()
	f := newFixture(t, func(o *Options) {
		o.Clock = nil
		o.Open = func(context.Context) (storage.Store, error) {
			store := &hookedStore{disk: d, before: func([]storage.Claim) error {
				if broken {
					return errDisk
				}
				return nil
			}}
			return &sharedStore{store, presence}, nil
		}
	})
	defer f.Close(context.Background())
	synctest.Wait()
	window := limit.Window()
	time.Sleep(window - time.Duration(time.Now().UnixNano())%window) // to the beginning of a fixed one
	for f.ask(debit(limit, "a", 1)).Allowed {
	}
	broken = true
	share := share{percent: 40, presence: presence}.of(limit)
	var admitted []int // in each hundredth of a window
	for range 800 {
		admitted = append(admitted, f.count(2, debit(limit, "a", 1)))
		time.Sleep(window / 100)
	}
	first, step := 0, 1
	if limit.CountsSlots() {
		first = 105 // when no slot from before the outage counts any more
	}
	if limit.Algorithm() == limiter.Fixed {
		first, step = 100, 100
	}
	windows := 0
	for i := first; i+100 <= len(admitted); i += step {
		sum := 0
		for _, n := range admitted[i : i+100] {
			sum += n
		}
		most := share.Amount()
		if !limit.CountsSlots() {
			most += share.Capacity()
		}
		if int64(sum) > most || int64(sum) < share.Amount()/2 {
			t.Fatalf("%+v, %+v: %d admitted in the window from %d, want %d to %d", limit.Rate, presence, sum, i, share.Amount()/2, most)
		}
		windows++
	}
	if windows == 0 || share.Amount() < 2 || !f.committer.degraded.Load() {
		t.Errorf("%+v, %+v: looked at %d windows", limit.Rate, presence, windows)
	}
}

// A refusal by a share ends when the store is tried again: with it the whole limit may be back, and
// a client without use isn't told to wait for the end of a window.
func TestRefusalsByAShareEndAtTheNextProbe(t *testing.T) {
	for _, algorithm := range algorithms {
		limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 5, Window: time.Hour})
		inBubble(t, func(t *testing.T, e *faulty) {
			e.broken.Store(true)
			e.count(4, debit(limit, "a", 1))
			time.Sleep(time.Minute) // probes are 10 s apart by now
			d := e.ask(debit(limit, "a", 1))
			if d.Allowed || !d.Degraded || d.Retry < firstProbe || d.Retry > lastProbe*5/4 {
				t.Errorf("%v: in an outage: %+v", algorithm, d)
			}
			e.broken.Store(false)
			time.Sleep(d.Retry + time.Second)
			if after := e.ask(debit(limit, "a", 1)); !after.Allowed {
				t.Errorf("%v: after %v: %+v", algorithm, d.Retry, after)
			}
		})
	}
}

// Machines know of one another a moment after the last of them has started or ended, not only after
// the next cleanup: in an outage soon after that their shares fit.
func TestMachinesSoonKnowOfOneAnother(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, time.Millisecond)
		var all []*machine
		for n := range 4 {
			time.Sleep(5 * time.Second) // so that they don't join regularly at the same time
			all = append(all, f.start(0))
			time.Sleep(newsInterval + 100*time.Millisecond)
			for i, m := range all {
				if known := m.committer.conn.processes(); known != int64(n+1) {
					t.Errorf("of %d machines, machine %d knows %d", n+1, i, known)
				}
			}
		}
		all[0].Close(t.Context())
		time.Sleep(newsInterval + 100*time.Millisecond)
		for i, m := range all[1:] {
			if known := m.committer.conn.processes(); known != 3 {
				t.Errorf("after the end of one of four machines, machine %d knows %d", i+1, known)
			}
			m.Close(t.Context())
		}
	})
}
