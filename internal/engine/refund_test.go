package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// idLimit has the id of all ids, however many units they stand for.
func idLimit(t testing.TB, units int64) *Limit {
	l := *sliding(t, units, 24*time.Hour)
	l.ID = 0x1d
	return &l
}

func charge(t testing.TB, e *Engine, limit *Limit, key, id string, units int64) (Decision, bool, error) {
	named := debit(idLimit(t, units), id, units)
	return e.ChargeOnce(context.Background(), []Debit{debit(limit, key, units)}, &named)
}

func refund(t testing.TB, e *Engine, limit *Limit, key, id string, units int64) (int64, Debit, bool, error) {
	named, debits := debit(idLimit(t, 1000+units), id, 1000+units), []Debit{debit(limit, key, units)}
	back, repeated, err := e.GiveBack(context.Background(), debits, &named)
	return back, debits[0], repeated, err
}

// An id that was used up for other units is an error, also where the charge would be refused. It changes nothing.
func TestAnIDStandsForItsUnits(t *testing.T) {
	f, limit := newFixture(t), sliding(t, 10, 24*time.Hour)
	if d, repeated, err := charge(t, f.Engine, limit, "a", "x", 6); !d.Allowed || repeated || err != nil {
		t.Fatal(d, repeated, err)
	}
	for units, says := range map[int64]string{6: "repeated", 5: "other", 4: "other", 20: "other", 3: "other"} {
		_, repeated, err := charge(t, f.Engine, limit, "a", "x", units)
		other := (*OtherUnitsError)(nil)
		if repeated != (says == "repeated") || errors.As(err, &other) != (says == "other") || says == "other" && other.Cost != 6 {
			t.Errorf("%d units: repeated %v, %v", units, repeated, err)
		}
	}
	if _, _, _, err := refund(t, f.Engine, limit, "a", "x", 6); !errors.As(err, new(*OtherUnitsError)) {
		t.Errorf("a refund with the id of a charge: %v", err)
	}
	if n := f.count(10, debit(limit, "a", 1)); n != 4 {
		t.Errorf("%d are left, want 4", n)
	}
}

// When the store has lost its data, ids of charges stay used up as the units of the charges stay charged: those of
// the last five minutes.
func TestIDsSurviveLostData(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, limit := new(place), sliding(t, 100_000, 24*time.Hour)
		p.replace()
		f := p.engine(t)
		defer f.Close(t.Context())
		do := func(id string, want bool) {
			t.Helper()
			if d, repeated, err := charge(t, f.Engine, limit, "a", id, 3); err != nil || repeated != want || !d.Allowed && !repeated {
				t.Fatalf("charge %s: %+v, repeated %v, %v; want repeated %v", id, d, repeated, err, want)
			}
		}
		do("old", false)
		time.Sleep(keepTime + time.Minute)
		for n := range 700 { // more than a call of the store takes
			do(fmt.Sprint(n), false)
		}
		if back, _, _, err := refund(t, f.Engine, limit, "a", "back", 5); back != 5 || err != nil {
			t.Fatal(back, err)
		}
		if back, _, _, err := refund(t, f.Engine, limit, "b", "free", 5); back != 0 || err != nil {
			t.Fatal(back, err)
		}
		p.replace()
		f.askUntilInUse(debit(limit, "c", 1))
		for n := range 700 {
			do(fmt.Sprint(n), true)
		}
		if _, _, repeated, err := refund(t, f.Engine, limit, "a", "back", 5); !repeated || err != nil {
			t.Errorf("a refund took effect twice: %v", err)
		}
		if _, _, repeated, _ := refund(t, f.Engine, limit, "a", "free", 5); repeated {
			t.Error("an id is used up though nothing was given back with it")
		}
		do("old", false)
		if n := len(f.committer.ids.list); n > 710 {
			t.Errorf("memory has %d ids, of 702 in five minutes", n)
		}
	})
}

const keepTime = time.Duration(keepUsedIDs)

// Memory knows a bounded number of ids.
func TestMemoryKnowsSomeIDs(t *testing.T) {
	var ids usedIDs
	for n := range 3 * maxUsedIDs {
		id := debit(idLimit(t, 1), fmt.Sprint(n), 1)
		ids.add(&id, int64(n))
	}
	if len(ids.list) != maxUsedIDs || string(ids.list[0].Key) != fmt.Sprint(2*maxUsedIDs) {
		t.Errorf("%d ids, the oldest is %s", len(ids.list), ids.list[0].Key)
	}
}

// Units come back wherever in the window they were charged, the latest first, in few calls of the store.
func TestRefundsFindAllSlots(t *testing.T) {
	for _, slots := range []int{10, 60, 1440, 10_000} {
		bubble.Test(t, func(t *testing.T) {
			limit := newLimit(t, limiter.Params{Amount: 1000, Window: 2 * time.Hour, Slots: slots})
			f := newFleet(t, 10*time.Millisecond)
			m := f.start(0)
			defer m.Close(context.Background())
			for n := range 30 {
				if d, _, err := charge(t, m.Engine, limit, "a", fmt.Sprint(n), 4); err != nil || !d.Allowed {
					t.Fatal(d, err)
				}
				time.Sleep(225 * time.Second) // all within the window
			}
			before := f.claims.Load()
			back, left, _, err := refund(t, m.Engine, limit, "a", "back", 6)
			if back != 6 || err != nil || !left.Known || left.Quota.Remaining != 1000-120+6 {
				t.Errorf("%d slots: gave back %d, left %+v, %v", slots, back, left.Quota, err)
			}
			if calls := f.claims.Load() - before; calls > 8 {
				t.Errorf("%d slots: %d calls", slots, calls)
			}
			back, left, _, err = refund(t, m.Engine, limit, "a", "all", 1000)
			if back != 114 || err != nil || left.Quota.Remaining != 1000 {
				t.Errorf("%d slots: gave back %d of 114, left %+v, %v", slots, back, left.Quota, err)
			}
			if n := m.count(1001, debit(limit, "a", 1)); n != 1000 {
				t.Errorf("%d slots: %d are free when all was given back", slots, n)
			}
		})
	}
}

// After a refund memory knows what is left, also while it holds units of the key, and where claims are granted at
// once.
func TestMemoryFollowsRefunds(t *testing.T) {
	for _, algorithm := range algorithms[:2] {
		bubble.Test(t, func(t *testing.T) {
			limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 100, Window: 24 * time.Hour})
			fl := newFleet(t, time.Millisecond)
			m := fl.start(0)
			defer m.Close(context.Background())
			alone, _ := atOnceFixture(t, func(o *Options) { o.Clock = nil })
			defer alone.Close(context.Background())
			synctest.Wait()
			for name, e := range map[string]*Engine{"on a network": m.Engine, "alone": alone.Engine} {
				ask := func() int64 {
					debits := []Debit{debit(limit, "a", 1)}
					if !e.Decide(context.Background(), nil, debits).Allowed {
						t.Fatalf("%v %s: refused", algorithm, name)
					}
					return debits[0].Quota.Remaining
				}
				for range 5 { // some lease
					ask()
				}
				if _, _, err := charge(t, e, limit, "a", "x", 85); err != nil {
					t.Fatal(err)
				}
				if left := ask(); left != 9 {
					t.Errorf("%v %s: %d are left, want 9", algorithm, name, left)
				}
				back, left, _, err := refund(t, e, limit, "a", "y", 85)
				if back != 85 || err != nil || left.Quota.Remaining != 94 {
					t.Errorf("%v %s: gave back %d, %d are left, want 94: %v", algorithm, name, back, left.Quota.Remaining, err)
				}
				if keys := e.Keys(KeysQuery{N: 1}); len(keys) != 1 || keys[0].Left != 94 {
					t.Errorf("%v %s: the list has %+v", algorithm, name, keys)
				}
				if left := ask(); left != 93 {
					t.Errorf("%v %s: then %d are left, want 93", algorithm, name, left)
				}
				debits := []Debit{debit(limit, "a", 93)}
				if d := e.Decide(context.Background(), nil, debits); !d.Allowed {
					t.Errorf("%v %s: the rest is refused: %+v", algorithm, name, d)
				}
				if d := e.Decide(context.Background(), nil, []Debit{debit(limit, "a", 1)}); d.Allowed {
					t.Errorf("%v %s: more than the limit passes", algorithm, name)
				}
			}
		})
	}
}

// If a call of the store fails, either nothing was given back and the id is free, or the answer says that the outcome
// is unknown. Nothing is ever given back twice.
func TestRefundsThatTheStoreFails(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		for fails := int64(1); fails <= 4; fails++ {
			bubble.Test(t, func(t *testing.T) {
				limit, d := sliding(t, 100, 24*time.Hour), newDisk()
				var calls atomic.Int64
				f := newFixture(t, func(o *Options) {
					o.Clock = nil
					o.Open = func(context.Context) (storage.Store, error) {
						return &hookedStore{disk: d, before: func([]storage.Claim) error {
							if !unknown && calls.Add(-1) == 0 {
								return errDisk
							}
							return nil
						}, after: func() error {
							if unknown && calls.Add(-1) == 0 {
								return errors.Join(errDisk, storage.ErrUnknownOutcome)
							}
							return nil
						}}, nil
					}
				})
				defer f.Close(context.Background())
				if _, _, err := charge(t, f.Engine, limit, "a", "x", 60); err != nil {
					t.Fatal(err)
				}
				calls.Store(fails)
				back, _, _, err := refund(t, f.Engine, limit, "a", "y", 60)
				calls.Store(-1)
				time.Sleep(time.Minute) // the store is back
				again, _, repeated, failed := refund(t, f.Engine, limit, "a", "y", 60)
				if failed != nil || back+again > 60 {
					t.Errorf("call %d, unknown %v: %d and %d were given back, %v", fails, unknown, back, again, failed)
				}
				if err != nil && !errors.Is(err, storage.ErrUnknownOutcome) && (repeated || again != 60) {
					t.Errorf("call %d, unknown %v: after %v the id is used up: %d", fails, unknown, err, again)
				}
				if err == nil && back != 60 {
					t.Errorf("call %d, unknown %v: %d were given back without an error", fails, unknown, back)
				}
				if n := f.count(101, debit(limit, "a", 1)); n > 100 || n < 40 || err == nil && n != 100 {
					t.Errorf("call %d, unknown %v: %d are free after %v", fails, unknown, n, err)
				}
			})
		}
	}
}

// Units that a slow store doesn't find in time are too far back. Nothing is given back, and the id is free.
func TestRefundsTooFarBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		limit := newLimit(t, limiter.Params{Amount: 1000, Window: 24 * time.Hour, Slots: 10_000})
		f := newFleet(t, 10*time.Millisecond)
		m := f.start(0, func(o *Options) { o.StoreTimeout = 100 * time.Millisecond })
		defer m.Close(context.Background())
		if _, _, err := charge(t, m.Engine, limit, "a", "x", 10); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Hour)
		m.ask(debit(limit, "a", 1))
		f.let(func(ctx context.Context, apply func() error) error {
			time.Sleep(250 * time.Millisecond)
			return apply()
		})
		if back, _, _, err := refund(t, m.Engine, limit, "a", "y", 5); back != 0 || !errors.Is(err, ErrTooFarBack) {
			t.Errorf("gave back %d, %v", back, err)
		}
		f.let(f.travel)
		time.Sleep(time.Minute)
		if back, _, repeated, err := refund(t, m.Engine, limit, "a", "y", 5); back != 5 || repeated || err != nil {
			t.Errorf("then gave back %d, repeated %v, %v", back, repeated, err)
		}
	})
}

// Requests don't wait for more than one call of charges and refunds, however many there are.
func TestRequestsGoBeforeRefunds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const trip = 10 * time.Millisecond
		limit, f := sliding(t, 1000, 24*time.Hour), newFleet(t, trip)
		m := f.start(0, func(o *Options) { o.StoreTimeout = 100 * time.Millisecond })
		defer m.Close(context.Background())
		if _, _, err := charge(t, m.Engine, limit, "a", "x", 500); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for n := range 50 {
			all.Go(func() {
				if back, _, _, err := refund(t, m.Engine, limit, "a", fmt.Sprint(n), 10); back != 10 || err != nil {
					t.Errorf("gave back %d, %v", back, err)
				}
			})
		}
		for n := range 20 {
			time.Sleep(trip)
			d := m.ask(debit(limit, fmt.Sprint("new ", n), 1))
			if !d.Allowed || d.Degraded || d.Waited > 3*trip {
				t.Errorf("a request got %+v", d)
			}
		}
		all.Wait()
		if n := m.count(1001, debit(limit, "a", 1)); n != 1000 {
			t.Errorf("%d are free when all was given back", n)
		}
	})
}
