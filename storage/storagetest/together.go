package storagetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testTwoHandles alternates between two handles, which must make no difference.
func testTwoHandles(t *testing.T, open storage.Opener) {
	seeds(t, 2, func(t *testing.T, seed uint64) {
		tr, m := newTraffic(t, seed), model{}
		tr.offset(seed)
		handles := []storage.Store{must(t, open), must(t, open)}
		for range proof.Times(50, 100) {
			i := tr.rand.IntN(2)
			if tr.rand.IntN(20) == 0 { // the other one goes on meanwhile
				if err := handles[i].Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				handles[i] = must(t, open)
			}
			claims := tr.batch()
			tr.keep(claims, m.check(t, handles[i], claims...))
		}
	})
}

// testTogether uses limits up from many goroutines, through one handle and through two. Together they are granted
// exactly the limits. Half of the goroutines name a former name of each key, which nothing was charged to.
func testTogether(t *testing.T, open storage.Opener) {
	for handles := 1; handles <= 2; handles++ {
		claimTogether(t, open, handles)
	}
}

func claimTogether(t *testing.T, open storage.Opener, n int) {
	handles := make([]storage.Store, n)
	for i := range handles {
		handles[i] = must(t, open)
	}
	var limits []limiter.Limit
	for _, p := range params[:len(params)-1] {
		limits = append(limits, newLimit(t, p))
	}
	const workers, keys, formers = 4, 3, 100
	first := 10 * n // key
	var mu sync.Mutex
	got := make(map[cell]int64)
	var group sync.WaitGroup
	for _, handle := range handles {
		for worker := range workers {
			group.Go(func() {
				for {
					var claims []storage.Claim
					for i, l := range limits {
						for k := range keys {
							c := storage.Claim{ID: limitID(i), Key: key(first + k), Limit: l,
								Claim: limiter.Claim{Now: start, Min: 1, Want: 1 + l.Capacity()/50}}
							if worker%2 == 1 {
								c.Former = key(first + k + formers)
							}
							claims = append(claims, c)
						}
					}
					grants, granted := insist(t, handle, claims), int64(0)
					mu.Lock()
					for i, g := range grants {
						got[cell{claims[i].ID, claims[i].Key}] += g.Units
						granted += g.Units
					}
					mu.Unlock()
					if granted == 0 {
						return
					}
				}
			})
		}
	}
	group.Wait()
	for i, l := range limits {
		for k := range keys {
			if units := got[cell{limitID(i), key(first + k)}]; units != l.Capacity() {
				t.Errorf("%v limit of %d: %d handles granted %d", l.Algorithm(), l.Capacity(), n, units)
			}
		}
	}
	for _, handle := range handles {
		if err := handle.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// testNewKeysTogether claims new keys through several handles at the same time. Each key is granted
// exactly its limit.
func testNewKeysTogether(t *testing.T, open storage.Opener) {
	const workers, rounds, keys = 4, 10, 32
	l := newLimit(t, limiter.Params{Amount: workers - 1, Window: time.Minute})
	var got [rounds * keys]atomic.Int64
	var handles [workers]storage.Store
	for i := range handles { // first: a hand-over may charge claims under way twice
		handles[i] = must(t, open)
	}
	var group sync.WaitGroup
	for _, s := range handles {
		group.Go(func() {
			for round := range rounds {
				claims := make([]storage.Claim, keys)
				for i := range claims {
					claims[i] = storage.Claim{ID: limitID(0), Key: key(round*keys + i), Limit: l,
						Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
				}
				for i, g := range insist(t, s, claims) {
					got[round*keys+i].Add(g.Units)
				}
			}
		})
	}
	group.Wait()
	for i := range got {
		if units := got[i].Load(); units != workers-1 {
			t.Errorf("key %d: %d handles were granted %d of %d units", i, workers, units, workers-1)
		}
	}
}

// insist claims until the other handle allows it. A failed claim has changed nothing, so it can be
// sent again.
func insist(t *testing.T, s storage.Store, claims []storage.Claim) []limiter.Grant {
	grants := make([]limiter.Grant, len(claims))
	var err error
	for range 1000 {
		if err = s.Claim(context.Background(), At(claims[0].Now), claims, grants); err == nil {
			return grants
		}
		if errors.Is(err, storage.ErrUnknownOutcome) {
			break
		}
	}
	t.Errorf("claim: %v", err)
	clear(grants)
	return grants
}
