package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// A charge whose id the store can't take charges nothing, and can be repeated. If it isn't known whether
// the store took the id, the units stay charged, as the id may stand for them.
func TestChargesThatTheStoreFails(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, unknown := range []bool{false, true} {
			bubble.Test(t, func(t *testing.T) {
				once, limit := sliding(t, 1, 24*time.Hour), newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: 24 * time.Hour})
				d, broken, lost := newDisk(), false, false
				f := newFixture(t, func(o *Options) {
					o.Clock = nil
					o.Open = func(context.Context) (storage.Store, error) {
						return &hookedStore{disk: d, before: func(claims []storage.Claim) error {
							if !broken || claims[0].ID != once.ID {
								return nil
							}
							if broken, lost = false, unknown; lost {
								return nil
							}
							return errDisk
						}, after: func() error {
							if !lost {
								return nil
							}
							lost = false
							return errors.Join(errDisk, storage.ErrUnknownOutcome)
						}}, nil
					}
				})
				defer f.Close(context.Background())
				charge := func() (Decision, bool, error) {
					id := debit(once, "id", 1)
					return f.ChargeOnce(context.Background(), []Debit{debit(limit, "a", 6)}, &id)
				}
				broken = true
				if _, _, err := charge(); err == nil {
					t.Fatal("a charge succeeded without the store")
				}
				if _, _, err := charge(); !errors.Is(err, ErrUnavailable) {
					t.Errorf("in an outage: %v", err)
				}
				time.Sleep(time.Minute) // the store is back
				got, repeated, err := charge()
				if err != nil || repeated != unknown || !got.Allowed && !repeated {
					t.Errorf("%v, unknown %v: repeated %v, %+v, %v", algorithm, unknown, repeated, got, err)
				}
				if n := f.count(10, debit(limit, "a", 1)); n != 4 {
					t.Errorf("%v, unknown %v: %d are left, want 4", algorithm, unknown, n)
				}
			})
		}
	}
}
