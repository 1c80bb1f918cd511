package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// TestSimulationOfFleets runs machines whose clocks differ by seconds or by minutes on one store
// behind a network, in virtual time and determined by a seed. Calls or their answers are lost; they
// arrive late, or twice. Machines start, are closed, and crash. Sometimes an older copy replaces
// the store, so that writes acknowledged since are lost. The test checks:
//
//   - "Never more than the limit" (README) holds for all machines together, in the time of the
//     store. In a window with lost writes there may be as many more units as were lost. Without the
//     store a machine admits its share of a limit, which is not counted.
//   - No request waits for longer than the timeout.
//   - Two seconds after the last fault all machines use the store.
//   - In the end the store knows every admitted unit, except lost ones, unless a machine crashed.
//
// Allows: Degraded is less than exact; A slow database counts less exactly; A crash over-blocks a little;
// After lost data.
func TestSimulationOfFleets(t *testing.T) {
	simulate(t, proof.Times(8, 5000), newFleetWorld)
}

// fleetWorld is a fleet with faults.
type fleetWorld struct {
	*fleet
	t        *testing.T
	rng      *rand.Rand
	machines []*machine
	limits   []*simLimit
	replica  *fleetDisk // an older copy of the disk
	lost     []lostUnits
	crashes  int
	renames  bool // names of keys change every few minutes
	asked    sync.WaitGroup

	log     sync.Mutex
	chance  *rand.Rand // guarded by log, like all below: of the network
	trouble int        // the number of faulty calls of 20
	trace   []string
	named   map[storage.Key]bool
}

// lostUnits are units charged to a key that the store has lost.
type lostUnits struct {
	at    int64
	limit *simLimit
	key   string
	units int64
}

func newFleetWorld(t *testing.T, seed uint64) *fleetWorld {
	rng := rand.New(rand.NewPCG(seed, 1))
	trip := []time.Duration{100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond}[rng.IntN(3)]
	w := &fleetWorld{fleet: newFleet(t, trip), t: t, rng: rng, chance: rand.New(rand.NewPCG(seed, 2)), renames: seed%2 == 0, named: make(map[storage.Key]bool)}
	w.most, w.tracer = []int{2, 16, 128}[rng.IntN(3)], newTracer()
	for _, algorithm := range algorithms {
		window := []time.Duration{time.Second, 7 * time.Second, time.Minute, 10 * time.Minute}[rng.IntN(4)]
		amount := []int64{3, 10, 200, 3000}[rng.IntN(4)]
		l := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: window})
		w.limits = append(w.limits, &simLimit{now: l, most: amount, fastest: amount, admitted: map[string][]admission{}})
	}
	w.note("round trips take %v, calls have %d claims", trip, w.most)
	w.replicate()
	for range 2 {
		w.startOne()
	}
	w.let(w.meet)
	return w
}

func (w *fleetWorld) note(format string, args ...any) {
	w.log.Lock()
	defer w.log.Unlock()
	w.trace = append(w.trace, time.Now().Format("04:05.000000 ")+fmt.Sprintf(format, args...))
}

// now returns the time of the store.
func (w *fleetWorld) now() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.disk.Load().time(time.Now().UnixNano()).Now
}

// meet determines the fate of a call.
func (w *fleetWorld) meet(ctx context.Context, apply func() error) error {
	w.log.Lock()
	fate, delay := 0, time.Duration(w.chance.Int64N(int64(3*time.Second)))
	if w.chance.IntN(20) < w.trouble {
		fate = 1 + w.chance.IntN(6)
	}
	w.log.Unlock()
	switch fate {
	case 1: // it never arrives
		<-ctx.Done()
		return fmt.Errorf("%w: %w", ctx.Err(), storage.ErrUnknownOutcome)
	case 2: // it arrives, and its answer is lost
		_ = apply()
		<-ctx.Done()
		return fmt.Errorf("%w: %w", ctx.Err(), storage.ErrUnknownOutcome)
	case 3: // it arrives late, maybe when no request waits for it any more
		done := make(chan error, 1)
		time.AfterFunc(delay, func() { done <- apply() })
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), storage.ErrUnknownOutcome)
		}
	case 4: // it arrives twice
		_ = apply()
		return w.travel(ctx, apply)
	case 5: // it is not sent
		return errDisk
	case 6: // it takes long
		if err := pass(ctx, min(delay, 100*time.Millisecond)); err != nil {
			return err
		}
	}
	return w.travel(ctx, apply)
}

func (w *fleetWorld) step() {
	switch w.rng.IntN(24) {
	case 0:
		w.log.Lock()
		w.trouble = []int{0, 0, 1, 5, 20}[w.rng.IntN(5)]
		w.log.Unlock()
		w.note("%d of 20 calls go wrong", w.trouble)
	case 1:
		w.replicate()
	case 2:
		w.failOver()
	case 3:
		if len(w.machines) < 4 {
			w.startOne()
		}
	case 4:
		if len(w.machines) > 1 {
			w.stopOne()
		}
	case 5:
		w.sleep(w.limits[w.rng.IntN(len(w.limits))].now.Window())
	case 6, 7, 8, 9:
		w.sleep(time.Second)
	case 10, 11:
		w.stream(w.rng.IntN(300))
	default:
		w.burst(1 + w.rng.IntN(20))
	}
}

// replicate brings the replica to the state of the disk.
func (w *fleetWorld) replicate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := w.disk.Load()
	copied := newFleetDisk()
	copied.db.Store(from.db.Load().Clone())
	w.tracer.clone(from.db.Load(), copied.db.Load())
	copied.names, copied.numbers = maps.Clone(from.names), maps.Clone(from.numbers)
	w.replica = copied
}

// failOver replaces the disk by the replica.
func (w *fleetWorld) failOver() {
	w.mu.Lock()
	was, replica := w.disk.Load(), w.replica
	now := was.time(time.Now().UnixNano()).Now
	for _, l := range w.limits {
		for _, key := range simKeys {
			if units := lostBetween(l.now, was.stateOf(l.now, key, now), replica.stateOf(l.now, key, now), now); units > 0 {
				w.lost = append(w.lost, lostUnits{now, l, key, units})
			}
		}
	}
	if _, err := replica.raw().Time(w.reader(), now); err != nil { // clocks of servers don't differ
		w.t.Fatal(err)
	}
	w.disk.Store(replica)
	w.mu.Unlock()
	w.note("a replica takes over: %+v", w.lost)
	w.replicate()
}

// lostBetween returns how many units of a key one state has and another one lacks, each in its
// slot: units in another slot instead count for a shorter time.
func lostBetween(limit *Limit, was, later limiter.State, now int64) (units int64) {
	if !limit.CountsSlots() {
		before, after := limit.Claim(&was, limiter.Claim{Now: now}), limit.Claim(&later, limiter.Claim{Now: now})
		return max(before.InUse()-after.InUse(), 0)
	}
	left := make(map[int64]int64)
	for _, slot := range later.Slots {
		left[slot.Index] = slot.Used
	}
	for _, slot := range was.Slots {
		units += max(slot.Used-left[slot.Index], 0)
	}
	return units
}

func (w *fleetWorld) startOne() {
	apart := []time.Duration{5 * time.Second, 10 * time.Minute}[w.rng.IntN(2)]
	wrong := time.Duration(w.rng.Int64N(int64(2*apart))) - apart
	m := &machine{fleet: w.fleet, number: w.tracer.start()}
	m.wall.set.Store(int64(wrong))
	m.wall.source = storage.Source{3, byte(len(w.trace)), byte(len(w.trace) >> 8)}
	m.Engine = New(Options{Open: m.open, Name: w.name, Clock: &m.wall, Remote: true})
	w.machines = append(w.machines, m)
	w.note("%p starts, whose clock is wrong by %v", m, wrong)
}

// name names a key. If names change, a former name is only known once a machine has used it.
func (w *fleetWorld) name(id storage.LimitID, key string, remembered time.Duration, now int64) (Name, error) {
	if !w.renames {
		return testNames(id, key, remembered, now)
	}
	w.log.Lock()
	defer w.log.Unlock()
	n, err := simNames(id, key, remembered, now)
	w.named[n.Key] = true
	if !w.named[n.Former] {
		n.Former = storage.Key{}
	}
	return n, err
}

// stopOne closes a machine, or makes it crash: then none of its calls arrives any more.
func (w *fleetWorld) stopOne() {
	i := w.rng.IntN(len(w.machines))
	m := w.machines[i]
	w.machines = slices.Delete(w.machines, i, i+1)
	w.asked.Wait()
	if crash := w.rng.IntN(2) == 0; crash {
		w.crashes++
		w.note("%p crashes", m)
		m.dead.Store(true)
		w.tracer.crash(m.number)
		if store := m.committer.conn.store.Load(); store != nil {
			store.Close()
		}
	} else {
		w.note("%p is closed", m)
	}
	if m.Close(context.Background()) != nil {
		w.crashes++
	}
}

func (w *fleetWorld) sleep(d time.Duration) {
	d = time.Duration(w.rng.Int64N(int64(d)))
	w.note("%v pass", d)
	time.Sleep(d)
}

// burst sends requests concurrently.
func (w *fleetWorld) burst(n int) {
	m, key := w.machines[w.rng.IntN(len(w.machines))], simKeys[w.rng.IntN(len(simKeys))]
	w.note("%p is asked %d times for %s", m, n, key)
	for range n {
		w.ask(m, key)
	}
	w.asked.Wait()
}

// stream sends requests to all machines, one after another, so that leases are renewed.
func (w *fleetWorld) stream(n int) {
	key, between := simKeys[w.rng.IntN(len(simKeys))], time.Duration(w.rng.Int64N(int64(20*time.Millisecond)))
	w.note("all are asked for %s, %d times", key, n)
	for i := range n {
		w.ask(w.machines[i%len(w.machines)], key)
		time.Sleep(between)
	}
	w.asked.Wait()
}

func (w *fleetWorld) ask(m *machine, key string) {
	a := &asked{}
	for _, j := range w.rng.Perm(len(w.limits))[:1+w.rng.IntN(len(w.limits))] {
		a.add(w.limits[j], key, []int64{1, 1, 1, 1, 1, 2, 3}[w.rng.IntN(7)])
	}
	w.asked.Go(func() {
		start, ready := time.Now(), isClosed(m.committer.ready)
		d := m.ask(a.debits...)
		if took := time.Since(start); took > startTimeout+storage.DefaultTimeout || took > storage.DefaultTimeout && ready {
			w.t.Errorf("a request took %v", took)
		}
		w.decided(m, a, &d)
	})
}

func (w *fleetWorld) decided(m *machine, a *asked, d *Decision) {
	now := w.now()
	w.log.Lock()
	defer w.log.Unlock()
	switch {
	case !d.Allowed && (d.Retry == 0 || d.Reason == None || d.Reason == Abandoned):
		w.t.Errorf("refused without a reason or a time to retry: %+v", *d)
	case d.Allowed && !d.Degraded:
		for i, l := range a.limits {
			key := string(a.debits[i].Key)
			if cost := a.debits[i].Cost; cost > 0 {
				w.tracer.spent(m.number, &a.debits[i])
				w.admit(l, key, admission{at: min(a.debits[i].at, now), decided: now, cost: cost})
			}
		}
	}
}

// admit logs units admitted for a key, and checks all windows with them against the limit. Older
// units were checked before.
func (w *fleetWorld) admit(l *simLimit, key string, a admission) {
	window := int64(l.now.Window())
	all := slices.DeleteFunc(l.admitted[key], func(old admission) bool { return old.at < a.at-4*window })
	i, _ := slices.BinarySearchFunc(all, a.at, func(a admission, at int64) int { return cmp.Compare(a.at, at) })
	all = slices.Insert(all, i, a)
	l.admitted[key] = all
	for ; i < len(all); i++ {
		sum := int64(0)
		for j := i; j >= 0; j-- {
			begun, span := all[j].at, all[i].at-all[j].at
			limit := l.most
			switch algorithm := l.now.Algorithm(); {
			case algorithm == limiter.Sliding && span >= window, algorithm == limiter.Fixed && begun/window != all[i].at/window:
				j = 0
				continue
			case algorithm == limiter.TokenBucket:
				limit += span * l.fastest / window
			}
			sum += all[j].cost
			if sum > limit && sum > limit+w.lostIn(l, key, begun-window, all[i].at) {
				w.t.Errorf("%v %d/%v %s: %d admitted within %v, want at most %d, and %d that were lost",
					l.now.Algorithm(), l.most, l.now.Window(), key, sum, time.Duration(span), limit, w.lostIn(l, key, begun-window, all[i].at))
				return
			}
		}
	}
}

// lostIn returns how many units of a key were lost in a time.
func (w *fleetWorld) lostIn(l *simLimit, key string, from, to int64) (units int64) {
	for _, lost := range w.lost {
		if lost.limit == l && lost.key == key && lost.at >= from && lost.at <= to {
			units += lost.units
		}
	}
	return units
}

// end repairs the network, which all machines detect by themselves, and compares the charged units
// with the admitted ones.
func (w *fleetWorld) end() {
	w.log.Lock()
	w.trouble = 0
	w.log.Unlock()
	w.note("all is well")
	time.Sleep(2 * time.Second)
	for _, m := range w.machines {
		if d := m.ask(debit(w.limits[0].now, fmt.Sprintf("other%p", m), 1)); d.Degraded {
			_, cause := m.committer.outage.last()
			w.t.Errorf("%p is degraded two seconds after the last fault, because of %v: %+v", m, cause, d)
		}
	}
	for _, m := range w.machines {
		if err := m.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
	}
	synctest.Wait()
	w.tracer.check(w.t)
	now := w.now()
	for _, l := range w.limits {
		for key, all := range l.admitted {
			var least int64
			for _, a := range all {
				if l.now.Slots() > 0 && l.now.Slot(a.at) >= l.now.Oldest(now) {
					least += a.cost
				}
			}
			lost := w.lostIn(l, key, now-2*int64(l.now.Window()), now)
			if used := w.disk.Load().used(l.now, key, now); used < least-lost && w.crashes == 0 {
				w.t.Errorf("%v/%v %s: %d charged in the end, %d admitted, %d lost", l.now.Algorithm(), l.now.Window(), key, used, least, lost)
			}
		}
	}
}

func (w *fleetWorld) traced() []string { return w.trace }
