package storagetest

import (
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testRenamedKeys claims for keys whose names change, as the windows of one limit after the other pass.
// The names make no difference.
func testRenamedKeys(t *testing.T, open storage.Opener) {
	s, m, name, now := must(t, open), model{}, 0, start
	for n := range proof.Times(7, 35) * len(params) {
		now += int64(params[n/7%len(params)].Window) / 13
		var claims []storage.Claim
		for i, p := range params {
			l := newLimit(t, p)
			for k := range 5 {
				c := storage.Claim{ID: limitID(i), Key: key(1000*name + k), Limit: l,
					Claim: limiter.Claim{Now: now, Min: 1, Want: max(l.Capacity()/10, 1), Extra: int64(n % 3)}}
				if name > 0 {
					c.Former = key(1000*(name-1) + k)
				}
				claims = append(claims, c, c) // both find it moved
			}
		}
		m.check(t, s, claims...)
		if n%7 < 6 {
			continue
		}
		name++
		for i := range params {
			for k := range 5 {
				m[cell{limitID(i), key(1000*name + k)}] = m[cell{limitID(i), key(1000*(name-1) + k)}]
			}
		}
	}
}

// testNamesThatMeet claims under a new name, and then under the old one, as a process does that
// learns the new name later. That process can't see the grants under the new name meanwhile, but
// all of its own grants count afterwards.
func testNamesThatMeet(t *testing.T, open storage.Opener) {
	s := must(t, open)
	before, after := key(1), key(2)
	all, more := make([]int64, len(params)), make([]int64, len(params))
	ask := func(granted []int64, k, former storage.Key) {
		var claims []storage.Claim
		for i, p := range params {
			l := newLimit(t, p)
			claims = append(claims, storage.Claim{ID: limitID(i), Key: k, Former: former, Limit: l,
				Claim: limiter.Claim{Now: start, Min: 1, Want: max(l.Capacity()/3, 1)}})
		}
		for i, g := range claim(t, s, claims...) {
			granted[i] += g.Units
		}
	}
	ask(all, before, storage.Key{})
	ask(all, after, before)
	ask(all, before, storage.Key{})
	for range 10 {
		ask(more, after, before)
	}
	for i, p := range params {
		if l := newLimit(t, p); more[i] != max(l.Capacity()-all[i], 0) {
			t.Errorf("%v: after %d of %d units were granted under two names of one key, %d more were", p.Algorithm,
				all[i], l.Capacity(), more[i])
		}
	}
	for i, p := range params { // nothing is left under the old name
		l := newLimit(t, p)
		got := claim(t, s,
			storage.Claim{ID: limitID(i), Key: key(1), Limit: l, Claim: limiter.Claim{Now: start}})[0].Used
		if got != 0 {
			t.Errorf("%v: %d units are left under the old name", p.Algorithm, got)
		}
	}
}

// testSweepRenamed sweeps keys that had two names. They have left no rows under the old one.
func testSweepRenamed(t *testing.T, open storage.Opener) {
	s := must(t, open)
	for i, p := range params {
		c := storage.Claim{ID: limitID(i), Key: key(1), Limit: newLimit(t, p),
			Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
		claim(t, s, c)
		c.Key, c.Former = key(2), key(1)
		claim(t, s, c)
	}
	if rows := sweepAll(t, s, At(start+late)); rows != int64(len(params)) {
		t.Errorf("%d rows were left, want %d", rows, len(params))
	}
}
