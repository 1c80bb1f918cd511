package store

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// TestRoundTrips counts the messages of each call to the server.
func TestRoundTrips(t *testing.T) {
	server := sharedServer(t)
	proxy := newProxy(t, server)
	var messages atomic.Int64
	proxy.SetCut(func() testserver.Cut {
		messages.Add(1)
		return testserver.Pass
	})
	s, l := openStore(t, opener(t, server, proxy.Port, newOptions())), large(t)
	ctx := context.Background()
	clients, records, grants := make([]storage.Client, 1), make([]reputation.Record, 1), make([]limiter.Grant, 1)
	for what, c := range map[string]struct {
		trips int64
		call  func(term *storage.Term) error
	}{
		"a claim": {2, func(term *storage.Term) error { return s.Claim(ctx, term, claimOf(l, 1, 1), grants) }},
		"a claim for clients": {2, func(term *storage.Term) error {
			return s.ClaimFor(ctx, term, clients, records, claimOf(l, 1, 1), grants)
		}},
		"records": {1, func(term *storage.Term) error { return s.Records(ctx, term, clients, records) }},
		"a probe": {1, func(term *storage.Term) error { return s.Probe(ctx, term, claimOf(l, 1, 1), grants) }},
		"an offense": {2, func(term *storage.Term) error {
			return s.Punish(ctx, term, []storage.Offense{{Offense: reputation.Offense{Points: 1}}}, records)
		}},
		"news": {1, func(*storage.Term) error {
			_, err := s.News(ctx, storage.Seen{})
			return err
		}},
		"the time": {1, func(*storage.Term) error {
			_, err := s.Time(clock{}, 0)
			return err
		}},
	} {
		for range 2 { // the first one may connect
			within := term(t, s, clock{})
			messages.Store(0)
			if err := c.call(within); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if n := messages.Load(); n != c.trips {
			t.Errorf("%s takes %d round trips, want %d", what, n, c.trips)
		}
	}
}
