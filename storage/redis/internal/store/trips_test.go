package store

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Almost all claims take one round trip, for new keys, known keys, and keys that another machine
// has used meanwhile. A second one is needed only if a slot has begun on the way.
func TestRoundTrips(t *testing.T) {
	server, l := testserver.Redis(t), yearly(t)
	machines := []*Store{opened(t, at(server.Address())), opened(t, at(server.Address()))}
	mustCharge(t, machines[0], l, 1)
	mustCharge(t, machines[1], l, 1)
	calls := func() int {
		_, after, _ := strings.Cut(server.MustInfo(t, "commandstats"), "cmdstat_evalsha:calls=")
		n, _, _ := strings.Cut(after, ",")
		count, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	const claims = 1000
	before := calls()
	for i := range claims {
		term := &storage.Term{Clock: steadyClock{1}}
		key := storage.Key{byte(i % 2), byte(i >> 8), byte(i * (i % 2))}
		claim := []storage.Claim{{ID: 2, Key: key, Limit: l, Claim: limiter.Claim{Min: 1, Want: 1}}}
		if err := machines[i%3%2].Claim(context.Background(), term, claim, make([]limiter.Grant, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if took := calls() - before; took > claims*101/100 {
		t.Errorf("%d claims took %d round trips", claims, took)
	}
}
