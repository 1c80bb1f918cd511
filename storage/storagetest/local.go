package storagetest

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// The tests of stores for one machine.

// local opens a store for one machine.
func local(t *testing.T, open storage.Opener) storage.Local {
	t.Helper()
	return must(t, open).(storage.Local)
}

// alone opens a store with a period, or skips the test.
func alone(t *testing.T, open storage.Opener) storage.Local {
	t.Helper()
	s := local(t, open)
	if s.Period() == 0 {
		t.Skip("the store is in no period where nobody else uses it")
	}
	return s
}

// testAtOnce claims at once the rest of a claim, in several steps. Later claims count it: in the
// same store, in another one, and after all have been closed.
func testAtOnce(t *testing.T, open storage.Opener) {
	s, clock, m := alone(t, open), &processClock{wall: start, source: 1}, model{}
	for i, p := range params {
		c := storage.Claim{ID: limitID(i), Key: key(1), Limit: newLimit(t, p),
			Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
		known := m.checkIn(t, s, termNow(t, s, clock), c)[0].Lease
		for range 5 {
			grant, err := claimAtOnce(s, s.Period(), 0, c, known)
			want, changes := c.Limit.ClaimKnown(known, c.Claim)
			if full := want.Refused(c.Claim); full != errors.Is(err, storage.ErrNotAtOnce) ||
				!full && (err != nil || grant != want) {
				t.Fatalf("%v: got %+v, %v, want %+v", p.Algorithm, grant, err, want)
			} else if full {
				break
			}
			m.apply(c, changes)
			known = grant.Lease
		}
	}
	other := local(t, open)
	for _, s := range []storage.Local{s, other} {
		m.checkAll(t, s, termNow(t, s, clock))
	}
	for _, s := range []storage.Local{s, other} {
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	again := alone(t, open)
	m.checkAll(t, again, termNow(t, again, clock))
}

// testPeriodsEnd opens and closes stores. A claim at once in a period that has ended or was another
// store's is not granted, and each period has a new number.
func testPeriodsEnd(t *testing.T, open storage.Opener) {
	c, l := &processClock{wall: start, source: 1}, newLimit(t, params[0])
	ask := storage.Claim{ID: limitID(0), Key: key(1), Limit: l, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}
	seen := map[uint32]bool{0: true}
	for range 4 {
		s := alone(t, open)
		known := claimIn(t, s, termNow(t, s, c), ask)[0].Lease
		period := s.Period()
		if seen[period] {
			t.Errorf("period %d comes again", period)
		}
		other := local(t, open)
		for earlier := range seen {
			refusesAtOnce(t, s, earlier, ask, known)
		}
		refusesAtOnce(t, s, period, ask, known)
		refusesAtOnce(t, other, period, ask, known)
		if got := other.Period(); got != 0 {
			t.Errorf("a store is in period %d beside another", got)
		}
		for _, s := range []storage.Local{s, other} {
			if err := s.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			refusesAtOnce(t, s, period, ask, known)
		}
		seen[period] = true
	}
}

// claimAtOnce makes one claim at once.
func claimAtOnce(s storage.Local, period uint32, era int64, c storage.Claim,
	known limiter.Lease) (limiter.Grant, error) {
	claims := []storage.KnownClaim{{Claim: c, Known: known}}
	if err := s.ClaimAtOnce(period, era, claims); err != nil {
		return limiter.Grant{}, err
	}
	if !claims[0].Done {
		return limiter.Grant{}, storage.ErrNotAtOnce
	}
	return claims[0].Grant, nil
}

// refusesAtOnce makes claims at once that must be refused.
func refusesAtOnce(t *testing.T, s storage.Local, period uint32, c storage.Claim, known limiter.Lease) {
	t.Helper()
	grant, err := claimAtOnce(s, period, 0, c, known)
	if !errors.Is(err, storage.ErrNotAtOnce) && !errors.Is(err, storage.ErrUnknownOutcome) {
		t.Errorf("a claim in period %d, which has ended: got %+v, %v", period, grant, err)
	}
}

// testAtOnceModel compares random claims and claims at once with the model, while stores are opened
// and closed, keys are reset, expired rows are swept, and the time is set back.
func testAtOnceModel(t *testing.T, open storage.Opener, seed uint64) {
	w := &atOnceWorld{traffic: newTraffic(t, seed), open: open, model: model{},
		clock: &processClock{wall: start, source: 1}, known: make(map[cell]knownLease), latest: make(map[cell]int64)}
	w.steady, w.keys = true, 3
	w.stores = append(w.stores, alone(t, open))
	for range 300 {
		w.step(t)
	}
	if w.granted == 0 {
		t.Error("nothing was granted at once")
	}
	for _, s := range w.stores {
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	last := local(t, open)
	w.model.checkAll(t, last, termNow(t, last, w.clock))
}

// atOnceWorld has the stores in one place, and their expected content.
type atOnceWorld struct {
	*traffic
	open   storage.Opener
	stores []storage.Local // one or two
	clock  *processClock
	model  model
	era    int64

	known   map[cell]knownLease
	latest  map[cell]int64 // the last slot that anything was charged to
	granted int            // how many claims at once
	reset   int64          // the last one
}

// knownLease has all units in use of a key, as the user of a store has learned them in a period.
type knownLease struct {
	period uint32
	limiter.Lease
}

func (w *atOnceWorld) step(t *testing.T) {
	s := w.stores[w.rand.IntN(len(w.stores))]
	switch n := w.rand.IntN(100); {
	case n < 6 && (n < 2 || w.stores[0].Period() == 0):
		w.comeOrGo(t)
	case n < 8:
		sweepAll(t, s, termNow(t, s, w.clock))
	case n < 10:
		w.forgetOne(t, s)
	case n < 11:
		w.setBack(t, s)
	case n < 35:
		w.claimBatch(t, s)
	default:
		w.claimAtOnce(t, s)
	}
}

func (w *atOnceWorld) pass() {
	was := w.now
	w.tick()
	w.clock.advance(time.Duration(w.now - was))
}

// comeOrGo opens a second store, or closes one or all and opens one if none is left.
func (w *atOnceWorld) comeOrGo(t *testing.T) {
	if len(w.stores) == 1 && w.stores[0].Period() != 0 && w.rand.IntN(3) > 0 {
		w.stores = append(w.stores, local(t, w.open))
		return
	}
	for n := 1 + w.rand.IntN(3); n > 0 && len(w.stores) > 0; n-- {
		i := w.rand.IntN(len(w.stores))
		if err := w.stores[i].Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		w.stores = append(w.stores[:i:i], w.stores[i+1:]...)
	}
	if len(w.stores) == 0 {
		w.stores = append(w.stores, local(t, w.open))
	}
}

// forgetOne resets a limit for a key.
func (w *atOnceWorld) forgetOne(t *testing.T, s storage.Local) {
	place := cell{limitID(w.rand.IntN(len(w.limits))), key(w.rand.IntN(w.keys))}
	w.reset++
	reset(t, s, w.clock, storage.Reset{ID: w.reset, Limit: place.id, Key: place.key})
	delete(w.model, place)
	w.forget(place)
}

// setBack sets the time back. All counts are forgotten.
func (w *atOnceWorld) setBack(t *testing.T, s storage.Local) {
	const back = 3 * time.Hour
	w.clock.wall -= int64(back)
	w.now -= int64(back)
	for range 3 {
		w.clock.advance(time.Hour)
		w.now += int64(time.Hour)
		termNow(t, s, w.clock)
	}
	w.era = termNow(t, s, w.clock).Era
	clear(w.model)
	clear(w.known)
	clear(w.latest)
	clear(w.leases)
}

func (w *atOnceWorld) forget(at cell) {
	delete(w.known, at)
	delete(w.latest, at)
	delete(w.leases, at)
}

// claimBatch makes random claims.
func (w *atOnceWorld) claimBatch(t *testing.T, s storage.Local) {
	w.pass()
	claims := make([]storage.Claim, 1+w.rand.IntN(8))
	now := w.read(t, s)
	for i := range claims {
		c := w.next()
		c.Now = now // the wall clock is ahead of it once it was set back
		if c.Limit.CountsSlots() {
			c.Charge.At = min(c.Charge.At, c.Limit.Slot(c.Now))
		}
		claims[i] = c
	}
	period := s.Period()
	grants := w.model.checkIn(t, s, termNow(t, s, w.clock), claims...)
	w.keep(claims, grants)
	if period != s.Period() {
		period = 0
	}
	for i := range claims {
		w.learn(period, &claims[i], grants[i])
	}
}

// learn stores what a grant says about its key.
func (w *atOnceWorld) learn(period uint32, c *storage.Claim, g limiter.Grant) {
	place := cell{c.ID, c.Key}
	if c.Limit.CountsSlots() {
		if c.Charge.Units > 0 {
			w.latest[place] = max(w.latest[place], c.Charge.At)
		}
		if latest, ok := w.latest[place]; ok && g.Units > 0 && g.At < latest {
			period = 0 // what was charged ahead counts for longer
		} else if g.Units > 0 {
			w.latest[place] = g.At
		}
	}
	switch {
	case period != 0 && g.Units > 0 && c.Charge.Units == 0:
		w.known[place] = knownLease{period, g.Lease}
	case g.Units > 0 || c.Charge.Units > 0 || c.Return.Holds():
		delete(w.known, place)
	}
}

// claimAtOnce claims at once for a key whose usage is known completely, or none of it.
func (w *atOnceWorld) claimAtOnce(t *testing.T, s storage.Local) {
	w.pass()
	c := w.next()
	c.Charge, c.Return = limiter.Charge{}, limiter.Lease{}
	place, period := cell{c.ID, c.Key}, s.Period()
	c.Now = w.read(t, s)
	known, ok := w.known[place]
	if len(w.stores) == 1 && period != 0 && s.IsNew(c.ID, w.era, c.Key) {
		if st := w.model[place]; st != nil {
			if used := c.Limit.Claim(&st.State, limiter.Claim{Now: c.Now}).InUse(); used > 0 {
				t.Fatalf("%v: %d units are in use of a key that is said to be new", c.Limit.Algorithm(), used)
			}
		}
		known, ok = knownLease{period: period}, true
		w.forget(place)
	}
	if !ok {
		return
	}
	if len(w.stores) > 1 || known.period != period {
		refusesAtOnce(t, s, known.period, c, known.Lease)
		return
	}
	known.Lease.Spend(&c.Limit, c.Now, w.rand.Int64N(known.Units+1))
	if w.rand.IntN(2) == 0 {
		c.Return = known.Lease
	}
	grant, err := claimAtOnce(s, period, w.era, c, known.Lease)
	want, changes := c.Limit.ClaimKnown(known.Lease, c.Claim)
	switch {
	case errors.Is(err, storage.ErrNotAtOnce):
		w.known[place] = known
		return
	case err != nil:
		t.Fatalf("claim at once: %v", err)
	case grant != want || grant.Refused(c.Claim):
		t.Fatalf("claim at once: %+v of %+v: got %+v, want %+v", c.Claim, known.Lease, grant, want)
	}
	w.granted++
	w.model.apply(c, changes)
	if c.Return.Holds() {
		delete(w.leases, place)
	}
	w.learn(period, &c, grant)
}

// read returns the time that a store has.
func (w *atOnceWorld) read(t *testing.T, s storage.Store) int64 {
	now, err := s.Time(w.clock, 0)
	if err != nil {
		t.Fatalf("time: %v", err)
	}
	return now.Now
}

// apply charges the changes of a claim at once.
func (m model) apply(c storage.Claim, changes limiter.Changes) {
	m.at(c).Apply(&c.Limit, changes)
}

// checkAll uses up the rest of every limit for every key.
func (m model) checkAll(t *testing.T, s storage.Store, term *storage.Term) {
	t.Helper()
	for i, p := range params {
		l := newLimit(t, p)
		for k := range 10 {
			m.checkIn(t, s, term,
				storage.Claim{ID: limitID(i), Key: key(k), Limit: l, Claim: limiter.Claim{Min: 1, Want: l.Capacity()}})
		}
	}
}
