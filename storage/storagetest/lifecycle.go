package storagetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testStats checks the store's statistics.
func testStats(t *testing.T, open storage.Opener) {
	s, l := must(t, open), newLimit(t, params[0])
	var claims []storage.Claim
	for k := range 5000 {
		claims = append(claims,
			storage.Claim{ID: 1, Key: key(k), Limit: l, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}})
	}
	claim(t, s, claims...)
	full, err := s.Stats(context.Background())
	if err != nil {
		t.Fatalf("stats: %v", err)
	}
	if least := int64(len(claims)) * int64(len(storage.Key{})); full.Bytes < least {
		t.Errorf("the store says it takes %d bytes; its keys alone are %d", full.Bytes, least)
	}
}

// testClose closes a store in use.
func testClose(t *testing.T, open storage.Opener) {
	s, l := must(t, open), newLimit(t, params[0])
	c := storage.Claim{ID: 1, Key: key(1), Limit: l, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	var group sync.WaitGroup
	var mu sync.Mutex
	granted := int64(0)
	started := make(chan struct{}, 4)
	for range cap(started) {
		group.Go(func() {
			for i := 0; ; i++ {
				grants := make([]limiter.Grant, 1)
				err := s.Claim(context.Background(), At(start), []storage.Claim{c}, grants)
				if i == 0 {
					started <- struct{}{}
				}
				if errors.Is(err, storage.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				granted += grants[0].Units
				mu.Unlock()
			}
		})
	}
	for range cap(started) {
		<-started
	}
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	group.Wait()
	if err := s.Close(); err != nil && !errors.Is(err, storage.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	if err := s.Claim(context.Background(), At(start), []storage.Claim{c}, make([]limiter.Grant, 1)); !errors.Is(err,
		storage.ErrClosed) {
		t.Errorf("claim after close: got %v", err)
	}
	if _, err := s.Sweep(context.Background(), At(start)); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("sweep after close: got %v", err)
	}
	if _, err := s.Stats(context.Background()); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("stats after close: got %v", err)
	}

	// What was granted before is remembered, and nothing else.
	s = must(t, open)
	c.Now, c.Min, c.Want = start+int64(time.Millisecond), 1, l.Capacity()
	if g := claim(t, s, c); g[0].Units != l.Capacity()-granted {
		t.Errorf("after %d units were granted, %d are left of %d", granted, g[0].Units, l.Capacity())
	}
}

// testContinues opens stores one after the other, and side by side.
func testContinues(t *testing.T, open, elsewhere storage.Opener) {
	first := must(t, open)
	if !first.Continues(first) {
		t.Error("a store does not continue itself")
	}
	if err := first.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	again := must(t, open)
	beside, other := must(t, open), must(t, elsewhere)
	for name, s := range map[string]storage.Store{"again": again, "beside": beside} {
		if !s.Continues(first) || !s.Continues(again) {
			t.Errorf("a store opened %s does not continue the first", name)
		}
	}
	if other.Continues(first) || first.Continues(other) {
		t.Error("a store continues one in another place")
	}
}
