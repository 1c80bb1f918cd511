package storagetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testProbe makes random claims, each batch after two probes of it. The probes return the same
// grants as the claims, and so change nothing.
func testProbe(t *testing.T, open storage.Opener) {
	s := must(t, open)
	c, random := &processClock{wall: start, source: 1}, rand.New(rand.NewPCG(1, 2))
	var held []storage.Claim // of leases that are not given back
	for range proof.Times(60, 300) {
		var claims []storage.Claim
		for range 1 + random.IntN(6) {
			i := random.IntN(len(params))
			claims = append(claims, storage.Claim{
				ID: limitID(i), Key: key(random.IntN(4)), Limit: newLimit(t, params[i]),
				Claim: limiter.Claim{Min: 1, Want: 1 + random.Int64N(3), Extra: random.Int64N(3)},
			})
		}
		if len(held) > 0 && random.IntN(2) == 0 {
			claims = append(claims, held[0])
			held = held[1:]
		}
		var probed [2][]limiter.Grant
		for i := range probed {
			probed[i] = make([]limiter.Grant, len(claims))
			if err := s.Probe(context.Background(), termNow(t, s, c), slices.Clone(claims), probed[i]); err != nil {
				t.Fatalf("probe: %v", err)
			}
		}
		granted := claimIn(t, s, termNow(t, s, c), claims...)
		for i, g := range granted {
			if g != probed[0][i] || g != probed[1][i] {
				t.Fatalf("claim %d of %d: %+v were probed, and then %+v; granted was %+v", i, len(granted),
					probed[0][i], probed[1][i], g)
			}
			if g.Lease.Holds() {
				held = append(held, storage.Claim{ID: claims[i].ID, Key: claims[i].Key, Limit: claims[i].Limit,
					Claim: limiter.Claim{Return: g.Lease}})
			}
		}
		c.advance(time.Duration(random.Int64N(int64(time.Minute))))
	}
	probeParts(t, s, c)
	term := termNow(t, s, c)
	term.Era++
	if err := s.Probe(context.Background(), term, nil, nil); !errors.Is(err, storage.ErrTerm) {
		t.Errorf("of another era: %v, want %v", err, storage.ErrTerm)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Probe(context.Background(), term, nil, nil); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("closed: %v, want %v", err, storage.ErrClosed)
	}
}

// probeParts probes how many units are of which slots: each claim gives back all units of some of them.
func probeParts(t *testing.T, s storage.Store, c *processClock) {
	t.Helper()
	base := storage.Claim{ID: 4711, Key: key(99), Limit: newLimit(t, limiter.Params{Amount: 1000, Window: time.Hour})}
	claims, slots := []storage.Claim{base}, []int64{0}
	for _, units := range []int64{5, 7, 11} {
		charge := base
		charge.Min, charge.Want = units, units
		g := claimIn(t, s, termNow(t, s, c), charge)
		slots = append(slots, g[0].At)
		c.advance(10 * time.Minute)
	}
	slots[0] = slots[1] - 20
	for i := range 3 {
		n := slots[i+1] - slots[i]
		part := base
		part.Return = limiter.Lease{At: slots[i+1] - 1, Span: n - 1, Units: 2 * n * limiter.MaxAmount,
			Used: 2 * n * limiter.MaxAmount}
		claims = append(claims, part)
	}
	for range 2 { // the first changes nothing
		grants := make([]limiter.Grant, len(claims))
		if err := s.Probe(context.Background(), termNow(t, s, c), slices.Clone(claims), grants); err != nil {
			t.Fatalf("probe: %v", err)
		}
		for i, want := range []int64{23, 23, 18, 11} {
			if got := grants[i].InUse(); got != want {
				t.Errorf("without the units of slots before %d, %d are in use, want %d", slots[i], got, want)
			}
		}
	}
}
