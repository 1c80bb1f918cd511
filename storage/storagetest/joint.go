package storagetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testClaimFor makes random claims for random clients, and compares the answers with those of a
// model and with the records read through another handle.
func testClaimFor(t *testing.T, open storage.Opener) {
	s, c, random := network(t, open), &processClock{wall: start, source: 1}, rand.New(rand.NewPCG(1, 2))
	other, m := network(t, open), model{}
	for range proof.Times(40, 100) {
		now := termNow(t, s, c).Time.Now
		if random.IntN(3) == 0 {
			punish(t, other, offense(storage.Client{Key: key(random.IntN(4))}, now, 25))
		}
		clients := make([]storage.Client, random.IntN(4))
		for i := range clients {
			clients[i].Key = key(random.IntN(4))
		}
		claims := make([]storage.Claim, random.IntN(4))
		for i := range claims {
			limit := random.IntN(len(params))
			claims[i] = storage.Claim{
				ID: limitID(limit), Key: key(random.IntN(4)), Limit: newLimit(t, params[limit]),
				Claim: limiter.Claim{Now: now, Min: 1, Want: 1 + random.Int64N(3), Extra: random.Int64N(3)},
			}
		}
		want := make([]reputation.Record, len(clients))
		if err := other.Records(context.Background(), termNow(t, other, c), clients, want); err != nil {
			t.Fatal(err)
		}
		records, grants := make([]reputation.Record, len(clients)), make([]limiter.Grant, len(claims))
		term := termNow(t, s, c)
		if err := s.ClaimFor(context.Background(), term, clients, records, slices.Clone(claims), grants); err != nil {
			t.Fatalf("claim for: %v", err)
		}
		if !reflect.DeepEqual(records, want) {
			t.Fatalf("the records are %+v, want %+v", records, want)
		}
		for i := range claims {
			claims[i].Now = term.Time.Now
		}
		m.checkGrants(t, claims, grants)
		c.advance(time.Duration(random.Int64N(int64(time.Minute))))
	}
}

// testClaimForFails makes calls that fail and change nothing.
func testClaimForFails(t *testing.T, open storage.Opener) {
	s, c, l := network(t, open), &processClock{wall: start, source: 1}, newLimit(t, params[0])
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	claims := []storage.Claim{{ID: limitID(0), Key: key(1), Limit: l, Claim: limiter.Claim{Min: 1, Want: 1}}}
	clients, records, grants := make([]storage.Client, 1), make([]reputation.Record, 1), make([]limiter.Grant, 1)
	term := termNow(t, s, c)
	term.Era++
	if err := s.ClaimFor(context.Background(), term, clients, records, claims, grants); !errors.Is(err,
		storage.ErrTerm) {
		t.Errorf("of another era: %v, want %v", err, storage.ErrTerm)
	}
	if err := s.ClaimFor(ctx, termNow(t, s, c), clients, records, claims, grants); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
	if s.ClaimFor(context.Background(), termNow(t, s, c), clients, nil, claims, grants) == nil {
		t.Error("a record is missing, and there is no error")
	}
	if s.ClaimFor(context.Background(), termNow(t, s, c), clients, records, claims, nil) == nil {
		t.Error("a grant is missing, and there is no error")
	}
	claims[0].Want = l.Capacity()
	if g := claimIn(t, s, termNow(t, s, c), claims...); g[0].Units != l.Capacity() {
		t.Errorf("%d units are left, want %d", g[0].Units, l.Capacity())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.ClaimFor(context.Background(), term, nil, nil, nil, nil); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("closed: %v, want %v", err, storage.ErrClosed)
	}
}
