package storagetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// The tests of stores that forget at an operator's wish.

// reset performs resets, and fails the test on an error.
func reset(t *testing.T, s storage.Store, c storage.Clock, resets ...storage.Reset) (newest int64) {
	t.Helper()
	term := termNow(t, s, c)
	if err := s.Reset(context.Background(), term, resets); err != nil {
		t.Fatalf("reset: %v", err)
	}
	return term.Time.Resets
}

func resetsAfter(t *testing.T, s storage.Store, number int64) storage.Resets {
	t.Helper()
	known, err := s.Resets(context.Background(), number)
	if err != nil {
		t.Fatalf("resets: %v", err)
	}
	return known
}

// useUp claims the rest of each limit for a key, and returns the granted units.
func useUp(t *testing.T, s storage.Store, c storage.Clock, k storage.Key) (granted []int64) {
	t.Helper()
	var claims []storage.Claim
	for i, p := range params {
		l := newLimit(t, p)
		claims = append(claims,
			storage.Claim{ID: limitID(i), Key: k, Limit: l, Claim: limiter.Claim{Min: 1, Want: l.Capacity()}})
	}
	for _, g := range claimIn(t, s, termNow(t, s, c), claims...) {
		granted = append(granted, g.Units)
	}
	return granted
}

// testReset uses limits up and resets some of them, under both names of the key. Another handle
// lists the resets.
func testReset(t *testing.T, open storage.Opener) {
	s, c := must(t, open), &processClock{wall: start, source: 1}
	termNow(t, s, c)
	c.advance(time.Second)
	full := useUp(t, s, c, key(1))
	for _, k := range []storage.Key{key(2), key(3)} {
		useUp(t, s, c, k)
	}
	var resets []storage.Reset
	for i := range params {
		resets = append(resets, storage.Reset{ID: int64(1000 + i), Limit: limitID(i), Key: key(9), Former: key(1)})
		if i%2 == 0 {
			resets = append(resets, storage.Reset{ID: int64(2000 + i), Limit: limitID(i), Key: key(2)})
		}
	}
	resets = append(resets, storage.Reset{ID: 3000, Limit: limitID(0), Key: key(77)})
	other := must(t, open)
	if newest := reset(t, s, c, resets...); newest != int64(len(resets)) {
		t.Errorf("%d resets have the number %d", len(resets), newest)
	}
	for i, r := range resets {
		if want := i < len(resets)-1; r.Number != int64(i+1) || r.At != start+int64(time.Second) || r.Found != want {
			t.Errorf("reset %d: got %+v, want it found: %v", i, r, want)
		}
	}
	for k, all := range map[storage.Key]bool{key(1): true, key(9): true, key(2): false, key(3): false} {
		for i, units := range useUp(t, other, c, k) {
			switch wanted := all || k == key(2) && i%2 == 0; {
			case wanted && units != full[i]:
				t.Errorf("%v: a key got %d units after a reset, want %d", params[i].Algorithm, units, full[i])
			case !wanted && units != 0:
				t.Errorf("%v: a key that nobody reset got %d units more", params[i].Algorithm, units)
			}
		}
	}
	if known := resetsAfter(t, other, 2); known.Lost || known.Newest != int64(len(resets)) ||
		!slices.Equal(known.List, resets[2:]) {
		t.Errorf("after the second, the resets are %+v, want %+v", known, resets[2:])
	}
	if known := resetsAfter(t, other, int64(len(resets))); known.Lost || len(known.List) > 0 {
		t.Errorf("after the last, the resets are %+v", known)
	}
	if known := resetsAfter(t, other, int64(len(resets)+1)); !known.Lost {
		t.Errorf("a number that never was leads to %+v, which is said to be all", known)
	}
}

// testResetClient resets the record of a client, under both of its names.
func testResetClient(t *testing.T, open storage.Opener) {
	s, c := must(t, open), &processClock{wall: start, source: 1}
	for n := range 3 {
		punishIn(t, s, termNow(t, s, c), offense(storage.Client{Key: key(n)}, start, 25))
	}
	full := useUp(t, s, c, key(0))
	reset(t, s, c, storage.Reset{ID: 1, Client: true, Key: key(0)},
		storage.Reset{ID: 2, Client: true, Key: key(5), Former: key(1)})
	for n, want := range []int64{0, 0, start} {
		if got := standing(t, s, termNow(t, s, c), storage.Client{Key: key(n)}); got.At != want {
			t.Errorf("client %d: the last violation was at %d, want %d", n, got.At, want)
		}
	}
	for i, units := range useUp(t, s, c, key(0)) {
		if units != 0 {
			t.Errorf("with the client's record, %d of %d units that it had used were forgotten", units, full[i])
		}
	}
}

// testResetTerm makes calls in terms from before a reset. They change nothing. In particular, they
// give nothing back that was charged before the reset.
func testResetTerm(t *testing.T, open storage.Opener) {
	s, c := must(t, open), &processClock{wall: start, source: 1}
	for i, p := range params {
		l := newLimit(t, p)
		take := storage.Claim{ID: limitID(i), Key: key(1), Limit: l,
			Claim: limiter.Claim{Min: l.Capacity(), Want: l.Capacity()}}
		stale := termNow(t, s, c)
		held := claimIn(t, s, stale, take)[0]
		newest := reset(t, s, c, storage.Reset{ID: int64(i + 1), Limit: take.ID, Key: take.Key})
		claimIn(t, s, termNow(t, s, c), take)

		give := take
		give.Claim = limiter.Claim{Return: held.Lease}
		for call, err := range map[string]error{
			"claim": s.Claim(context.Background(), stale, []storage.Claim{give}, make([]limiter.Grant, 1)),
			"punish": s.Punish(context.Background(), stale,
				[]storage.Offense{offense(storage.Client{Key: key(1)}, start, 25)}, make([]reputation.Record, 1)),
			"records": s.Records(context.Background(), stale, []storage.Client{{Key: key(1)}},
				make([]reputation.Record, 1)),
			"reset": s.Reset(context.Background(), stale, []storage.Reset{{ID: 99, Limit: take.ID, Key: take.Key}}),
		} {
			if !errors.Is(err, storage.ErrTerm) || stale.Time.Resets != newest {
				t.Errorf("%s says %v and %+v, want the number %d", call, err, stale.Time, newest)
			}
		}
		take.Min, take.Want = 1, 1
		if g := claimIn(t, s, termNow(t, s, c), take); g[0].Units != 0 {
			t.Errorf("%v: units that were charged before a reset were given back after it", p.Algorithm)
		}
	}
}

// testResetAgain repeats a reset with the same ID, as after an unknown outcome.
func testResetAgain(t *testing.T, open storage.Opener) {
	s, c := must(t, open), &processClock{wall: start, source: 1}
	useUp(t, s, c, key(1))
	once := storage.Reset{ID: 7, Limit: limitID(0), Key: key(1)}
	reset(t, s, c, once)
	useUp(t, s, c, key(1))
	c.advance(time.Second)
	again := []storage.Reset{once, {ID: 8, Limit: limitID(1), Key: key(1)}, once}
	if newest := reset(t, s, c, again...); newest != 2 {
		t.Errorf("the number is %d after two resets", newest)
	}
	for i, want := range []int64{1, 2, 1} {
		if got := again[i]; got.Number != want || !got.Found {
			t.Errorf("reset %d: got %+v, want the number %d, found", i, got, want)
		}
	}
	if units := useUp(t, s, c, key(1)); units[0] != 0 || units[1] == 0 {
		t.Errorf("%v units are left: one reset was done twice, or the other not at all", units[:2])
	}
}

// testResetBad makes invalid resets.
func testResetBad(t *testing.T, open storage.Opener) {
	s, c := must(t, open), &processClock{wall: start, source: 1}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Reset(ctx, termNow(t, s, c), []storage.Reset{{ID: 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended, reset says %v", err)
	}
	if newest := reset(t, s, c); newest != 0 {
		t.Errorf("no reset has the number %d", newest)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(context.Background(), &storage.Term{Clock: c}, []storage.Reset{{ID: 1}}); !errors.Is(err,
		storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
	if _, err := s.Resets(context.Background(), 0); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a closed store says %v", err)
	}
}

// testResetsKept makes more resets than a store keeps, and sweeps.
func testResetsKept(t *testing.T, open storage.Opener) {
	s, c := must(t, open), &processClock{wall: start, source: 1}
	const more = 10
	var resets []storage.Reset
	for i := range storage.MaxResets + more {
		resets = append(resets, storage.Reset{ID: int64(i + 1), Limit: limitID(0), Key: key(i)})
	}
	reset(t, s, c, resets...)
	if known := resetsAfter(t, s, more); known.Lost || len(known.List) != storage.MaxResets {
		t.Errorf("after %d, %d are listed, lost: %v", more, len(known.List), known.Lost)
	}
	if known := resetsAfter(t, s, more-1); !known.Lost {
		t.Errorf("after %d, %d are listed, and said to be all", more-1, len(known.List))
	}

	const slewed = storage.KeepResets / 1024 // a store that corrects its time may be behind by half of that
	c.advance(storage.KeepResets - slewed)
	newest := reset(t, s, c, storage.Reset{ID: -1, Limit: limitID(0), Key: key(1)})
	for _, step := range []struct {
		pass time.Duration
		kept int
	}{{0, storage.MaxResets}, {2 * slewed, 1}, {storage.KeepResets + slewed, 0}} {
		c.advance(step.pass)
		sweepAll(t, s, termNow(t, s, c))
		if known := resetsAfter(t, s, 0); !known.Lost || known.Newest != newest || len(known.List) != step.kept {
			t.Errorf("%v later %d are known, the newest is %d, lost: %v; want %d, %d", step.pass, len(known.List),
				known.Newest, known.Lost, step.kept, newest)
		}
	}
	if known := resetsAfter(t, s, newest); known.Lost {
		t.Error("a process that knows of all resets is told that some are lost")
	}
}
