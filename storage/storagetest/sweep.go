package storagetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// testSweepExpired sweeps early, which deletes nothing that counts, and late, which deletes
// everything.
func testSweepExpired(t *testing.T, open storage.Opener) {
	s, many, start := must(t, open), make(map[limiter.Algorithm]bool), start // whether a sweep took several steps
	for i, p := range params {
		keys := 100
		if !many[p.Algorithm] || proof.IsOn() {
			keys = MaxStep + 100
		}
		many[p.Algorithm] = true
		l, m := newLimit(t, p), model{}
		var claims []storage.Claim
		for k := range keys {
			claims = append(claims, storage.Claim{ID: limitID(i), Key: key(k), Limit: l,
				Claim: limiter.Claim{Now: start, Min: 1, Want: (l.Capacity() + 1) / 2}})
		}
		m.check(t, s, claims...)

		sweepAll(t, s, At(start))
		now := claims[0]
		now.Want = 1
		later := slices.Clone(claims[:50])
		for i := range later {
			c := &later[i]
			c.Now, c.Want = lastMoment(l, &m.at(*c).State, start), 1
		}
		sweepAll(t, s, At(start))
		m.check(t, s, now)
		sweepAll(t, s, At(later[0].Now))
		m.check(t, s, later...)

		// Long after, nothing is left of them, and decisions are the model's.
		end := start + 3*int64(p.Window) + int64(limiter.MaxRefill)/1000
		if rows := sweepAll(t, s, At(end)); rows < int64(keys-50) {
			t.Errorf("%v: a late sweep deleted %d rows of %d keys", p.Algorithm, rows, keys)
		}
		if rows := sweepAll(t, s, At(end)); rows != 0 {
			t.Errorf("%v: a second sweep found %d rows to delete", p.Algorithm, rows)
		}
		for j := range claims {
			claims[j].Now = end
		}
		m.check(t, s, claims...)
		start = end
	}
}

// lastMoment returns the last nanosecond at which a state has an effect.
func lastMoment(l limiter.Limit, s *limiter.State, now int64) int64 {
	if !l.CountsSlots() {
		return s.Expires(&l, now) - 1
	}
	return l.Expiry(l.Slot(now)) - 1
}

// testSweepLongWindows sweeps rows that count for weeks, of limits that are unused meanwhile.
func testSweepLongWindows(t *testing.T, open storage.Opener) {
	s, start := must(t, open), start
	const week = 7 * 24 * time.Hour
	for i, algorithm := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket} {
		l := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 10, Window: week})
		m, c := model{}, storage.Claim{ID: limitID(i), Key: key(1), Limit: l,
			Claim: limiter.Claim{Now: start, Min: 10, Want: 10}}
		m.check(t, s, c)
		for day := range int64(5) {
			if rows := sweepAll(t, s, At(start+day*int64(24*time.Hour))); rows != 0 {
				t.Errorf("%v: a sweep deleted %d rows that count for a week", algorithm, rows)
			}
		}
		c.Now += int64(4 * 24 * time.Hour)
		m.check(t, s, c)
		if rows := sweepAll(t, s, At(start+int64(5*week))); rows != 1 {
			t.Errorf("%v: a sweep deleted %d rows after weeks, want 1", algorithm, rows)
		}
		start += int64(5 * week)
	}
}

// testSweepBesideAnother has one process sweep while another uses a limit: seldom enough that the
// limit may be dropped in between, and often enough that it need not be written each time.
func testSweepBesideAnother(t *testing.T, open storage.Opener) {
	s, other, l := must(t, open), must(t, open), newLimit(t, params[0])
	for _, step := range []struct{ used, swept time.Duration }{
		{0, 25 * time.Hour},
		{26 * time.Hour, 27 * time.Hour},
		{50 * time.Hour, 50*time.Hour + 10*time.Minute},
		{50*time.Hour + 20*time.Minute, 52 * time.Hour},
	} {
		claim(t, s, storage.Claim{ID: limitID(0), Key: key(1), Limit: l,
			Claim: limiter.Claim{Now: start + int64(step.used), Min: 1, Want: 1}})
		if rows := sweepAll(t, other, At(start+int64(step.swept))); rows != 1 {
			t.Errorf("used after %v and swept after %v: %d rows were deleted, want 1", step.used, step.swept, rows)
		}
	}
}

// testSweepWhileClaiming sweeps between random batches, which makes no difference as long as the
// time does not step back.
func testSweepWhileClaiming(t *testing.T, open storage.Opener) {
	seeds(t, 3, func(t *testing.T, seed uint64) {
		tr, m, s := newTraffic(t, seed), model{}, must(t, open)
		tr.steady = true
		tr.offset(seed)
		for range proof.Times(40, 120) {
			claims := tr.batch()
			tr.keep(claims, m.check(t, s, claims...))
			if tr.rand.IntN(3) == 0 {
				swept, err := s.Sweep(context.Background(), At(tr.now))
				if err != nil {
					t.Fatalf("sweep: %v", err)
				}
				if swept.Rows > MaxStep {
					t.Fatalf("one step of a sweep deleted %d rows", swept.Rows)
				}
			}
		}
		sweepAll(t, s, At(tr.now))
		claims := tr.batch()
		m.check(t, s, claims...)
	})
}

// late is a time at which no limit of a day or a month counts any more, wherever its days begin, and
// sweeps have deleted it.
const late = int64(35 * 24 * time.Hour)

// testSweepForeignLimits sweeps with a handle that has never used the limits.
func testSweepForeignLimits(t *testing.T, open storage.Opener) {
	s := must(t, open)
	for i, p := range params {
		l := newLimit(t, p)
		claim(t, s,
			storage.Claim{ID: limitID(i), Key: key(1), Limit: l, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = must(t, open)
	if rows := sweepAll(t, s, At(start)); rows != 0 {
		t.Errorf("a sweep deleted %d rows that count", rows)
	}
	end := start + late
	if rows := sweepAll(t, s, At(end)); rows != int64(len(params)) {
		t.Errorf("a sweep deleted %d rows, want %d", rows, len(params))
	}
	for i, p := range params { // and the limits can be used again
		l := newLimit(t, p)
		c := storage.Claim{ID: limitID(i), Key: key(1), Limit: l, Claim: limiter.Claim{Now: end, Min: 1, Want: 1}}
		model{}.check(t, s, c)
	}
	if rows := sweepAll(t, s, At(end+late)); rows != int64(len(params)) {
		t.Errorf("a second sweep deleted %d rows, want %d", rows, len(params))
	}
}
