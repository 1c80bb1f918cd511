package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// sharedStore is a store that several processes use, one of which fails the claims
// of all.
type sharedStore struct {
	*hookedStore
	presence storage.Presence
}

func (s *sharedStore) Join(context.Context, int64, int64, int64) (storage.Presence, error) {
	return s.presence, nil
}

func (s *sharedStore) Leave(context.Context, int64) error { return nil }

// Processes that know of one another divide what an outage leaves of a limit:
// together they admit 40 % of it, rounded down, but at least 1.
func TestProcessesDivideALimitInAnOutage(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, c := range []struct{ amount, want int64 }{{1, 1}, {2, 1}, {3, 1}, {10, 4}, {100, 40}} {
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
					if all != int(c.want) {
						t.Errorf("%v: %d processes admit %d of %d, want %d", algorithm, n, all, c.amount, c.want)
					}
				})
			}
		}
	}
}
