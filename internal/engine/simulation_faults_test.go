package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// TestSimulationOfFaults runs an engine on a store that fails, lies, hangs and is replaced, in
// virtual time and determined by a seed. As long as memory forgets no key, limits still hold:
// memory subtracts the known usage, and charges admitted units.
//
// Allows: nothing.
func TestSimulationOfFaults(t *testing.T) {
	changed, away := 0, 0
	simulate(t, proof.Times(12, 5000), func(t *testing.T, seed uint64) *troubled {
		w := newTroubled(t, seed)
		w.changed, w.away = &changed, &away
		return w
	})
	if t.Logf("%d changes of options, %d of them in an outage", changed, away); away == 0 || changed == away {
		t.Error("the options were never changed in an outage, or only there")
	}
}

// troubled is a world with one process and a faulty store.
type troubled struct {
	world
	engine   *Engine
	place    place
	degraded int // decisions without the store

	changed, away *int // changes of options in all worlds, and those in an outage

	mu      sync.Mutex
	chance  *rand.Rand // guarded by mu: of the store
	trouble int        // guarded by mu: the number of faulty calls of 10
}

func newTroubled(t *testing.T, seed uint64) *troubled {
	w := &troubled{world: world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), tracer: newTracer()}, chance: rand.New(rand.NewPCG(seed, 2))}
	w.place.replace()
	for _, algorithm := range algorithms {
		window := []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour}[w.rng.IntN(4)]
		amount := []int64{1, 3, 10, 200}[w.rng.IntN(4)]
		l := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: window})
		w.limits = append(w.limits, &simLimit{now: l, most: amount, fastest: amount, admitted: map[string][]admission{}})
	}
	w.engine = New(Options{Open: w.open, Name: testNames, CleanupInterval: 1000 * time.Hour, resetInterval: 1000 * time.Hour})
	synctest.Wait()
	return w
}

func (tr *troubled) open(context.Context) (storage.Store, error) {
	if tr.pickFate() == fails {
		return nil, errDisk
	}
	d, fate := tr.place.now.Load(), fine
	return &hookedStore{
		disk: d, tracer: tr.tracer, machine: 1,
		before: func([]storage.Claim) error {
			if tr.place.now.Load() != d {
				return errDisk
			}
			switch fate = tr.pickFate(); fate {
			case fails:
				return errDisk
			case unknownLost:
				return errors.Join(errDisk, storage.ErrUnknownOutcome)
			case slow:
				time.Sleep(tr.delay())
			}
			return nil
		},
		after: func() error {
			if fate == unknownDone {
				return errors.Join(errDisk, storage.ErrUnknownOutcome)
			}
			return nil
		},
	}, nil
}

// fate is the outcome of a call of the store.
type fate int

const (
	fine fate = iota
	fails
	unknownLost // nothing is applied, and the outcome is unknown
	unknownDone // it is applied, and the outcome is unknown
	slow
	fates
)

func (tr *troubled) pickFate() fate {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.chance.IntN(10) >= tr.trouble {
		return fine
	}
	return fails + fate(tr.chance.IntN(int(fates-fails)))
}

func (tr *troubled) delay() time.Duration {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return time.Duration(tr.chance.Int64N(int64(3 * time.Second)))
}

func (tr *troubled) step() {
	switch tr.rng.IntN(13) {
	case 12:
		tr.change()
	case 0:
		tr.mu.Lock()
		tr.trouble = []int{0, 0, 1, 5, 10}[tr.rng.IntN(5)]
		tr.note("%d of 10 calls go wrong", tr.trouble)
		tr.mu.Unlock()
	case 1:
		if tr.rng.IntN(4) == 0 {
			tr.note("the database is replaced")
			tr.place.replace()
		}
	case 2:
		tr.sleep(tr.limits[tr.rng.IntN(len(tr.limits))].now.Window())
	case 3, 4, 5:
		tr.sleep(time.Second)
	default:
		tr.burst(1 + tr.rng.IntN(20))
	}
}

// change changes options of the engine, as a reload does.
func (tr *troubled) change() {
	away, reopen := tr.engine.Degraded(), tr.rng.IntN(3) > 0
	tr.note("the options change, reopen %v, in an outage %v", reopen, away)
	if *tr.changed++; away {
		*tr.away++
	}
	changed := *tr.engine.opts.now()
	changed.CleanupInterval, changed.MaxKeys = time.Duration(1+tr.rng.IntN(1000))*time.Hour, 10_000+tr.rng.IntN(1000)
	if err := tr.engine.Change(context.Background(), changed, reopen); err != nil {
		tr.t.Error(err)
	}
}

func (tr *troubled) sleep(d time.Duration) {
	d = time.Duration(tr.rng.Int64N(int64(d)))
	tr.note("%v pass", d)
	time.Sleep(d)
}

// burst sends requests concurrently, and waits for them.
func (tr *troubled) burst(n int) {
	key := fmt.Sprint("key", tr.rng.IntN(2))
	all := make([]*asked, n)
	var group sync.WaitGroup
	for i := range all {
		all[i] = &asked{decision: make(chan Decision, 1)}
		for _, j := range tr.rng.Perm(len(tr.limits))[:1+tr.rng.IntN(len(tr.limits))] {
			all[i].add(tr.limits[j], key, tr.cost())
		}
		group.Go(func() { all[i].decision <- tr.engine.Decide(context.Background(), nil, all[i].debits) })
	}
	start := time.Now()
	group.Wait()
	if took := time.Since(start); took > storage.DefaultTimeout+20*time.Millisecond {
		tr.t.Errorf("a request took %v", took)
	}
	for _, a := range all {
		tr.decided(a, <-a.decision)
	}
}

func (tr *troubled) decided(a *asked, d Decision) {
	tr.note("decided %s: %+v", a, d)
	if d.Degraded {
		tr.degraded++
	}
	if !d.Allowed {
		if d.Retry == 0 || d.Reason == None || d.Reason == Abandoned {
			tr.t.Errorf("refused without a reason or a time to retry: %+v", d)
		}
		return
	}
	for i, l := range a.limits {
		key := string(a.debits[i].Key)
		if cost := a.debits[i].Cost; cost > 0 {
			if !d.Degraded {
				tr.tracer.spent(1, &a.debits[i])
			}
			l.admitted[key] = append(l.admitted[key], admission{at: a.debits[i].at, decided: time.Now().UnixNano(), cost: cost})
			tr.checkBound(l, key)
		}
	}
}

// end repairs the store, which the engine detects by itself, and compares the charged units with
// the admitted ones.
func (tr *troubled) end() {
	tr.mu.Lock()
	tr.trouble = 0
	tr.mu.Unlock()
	tr.note("all is well")
	for i := range 600 { // commits reveal faults
		tr.engine.Decide(context.Background(), nil, []Debit{debit(tr.limits[0].now, fmt.Sprint("other", i), 1)})
		time.Sleep(100 * time.Millisecond)
	}
	if tr.engine.committer.degraded.Load() {
		tr.t.Error("degraded a minute after the last fault")
	}
	if err := tr.engine.Close(context.Background()); err != nil {
		tr.t.Error(err)
	}
	tr.tracer.check(tr.t)
	now := time.Now().UnixNano()
	for _, l := range tr.limits {
		for key, all := range l.admitted {
			var least int64
			for _, a := range all {
				if l.now.Slots() > 0 && l.now.Slot(a.at) >= l.now.Oldest(now) {
					least += a.cost
				}
			}
			if used := tr.place.now.Load().used(l.now, key, now); used < least {
				tr.t.Errorf("%v/%v %s: %d charged in the end, %d admitted", l.now.Algorithm(), l.now.Window(), key, used, least)
			}
		}
	}
}
