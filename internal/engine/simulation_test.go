package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// TestSimulation runs engines on one disk in virtual time. A seed determines the sequence of
// events: requests, commits, crashes that lose uncommitted data, clean stops, restarts, reloads
// that change amounts, evictions, passing time, and with every other seed clocks that are set. Some
// requests are pending. After every step the promises are checked against a log of the admitted
// units.
//
// Allows: A crash over-blocks a little; A reload that changes a token bucket's amount; A window is a little
// longer than it says; A wall clock that is wrong by more than 90 minutes.
func TestSimulation(t *testing.T) {
	simulate(t, proof.Times(12, 5000), newWorld)
}

// world is the simulated world.
type world struct {
	t         *testing.T
	rng       *rand.Rand
	disk      *disk
	procs     []*process
	limits    []*simLimit
	set       int64 // how far the machine's clock was set
	sets      bool  // clocks are set
	private   bool  // processes read steady clocks of their own
	immediate bool  // stores claim at once
	pace      pace  // of the disk
	crashes   int
	telling   bool // one process is asked until it refuses
	pending   []*simPending
	tracer    *tracer
	admitted  int // requests, in total
	trace     []string
}

// simKeys are the keys of the requests.
var simKeys = []string{"key0", "key1", "key2"}

// simLimit is a limit whose amount changes, and the units it has admitted.
type simLimit struct {
	now      *Limit
	most     int64 // the largest capacity so far
	fastest  int64 // the largest amount so far
	admitted map[string][]admission
	later    map[string]int64 // units of requests with Afterwards that counted, as far as they were free
}

// admission is an admitted request. Its times are those of the process. If the process is ahead of
// the disk, they are moved to the disk's time when the process learns that.
type admission struct {
	number  int
	at      int64 // the time of the decision
	decided int64 // when the decision became known, in the time of the disk
	cost    int64
}

// process is an engine that can be killed.
type process struct {
	*Engine
	world   *world
	rng     *rand.Rand // of its committer
	wall    simClock
	pace    pace
	dead    atomic.Bool
	commit  atomic.Pointer[commitAttempt] // a batch that waits for goOn
	asked   []*asked
	ctx     context.Context
	kill    context.CancelFunc
	letting atomic.Bool  // every batch continues at once
	tries   atomic.Int64 // calls of claims at once, and of their names
	closed  bool
	number  int      // in the trace
	took    [2]int64 // how long the store took by the lines of the last two collections
}

// simPending is a pending debit.
type simPending struct {
	*Pending
	process *process
	debit   Debit
	limit   *simLimit
	key     string
	number  int // of its admission, or 0
	traced  bool
}

type commitAttempt struct {
	verdict chan error
}

// asked is a request that was sent to a process.
type asked struct {
	debits   []Debit
	limits   []*simLimit
	decision chan Decision
	decided  int64 // when, in the time of the disk
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), disk: newDisk(), tracer: newTracer(), sets: seed%2 == 0, private: seed%4 == 1, immediate: seed%3 > 0}
	for _, algorithm := range algorithms {
		window := []time.Duration{100 * time.Millisecond, time.Second, 7 * time.Second, time.Minute}[w.rng.IntN(4)]
		amount := []int64{1, 3, 10, 200}[w.rng.IntN(4)]
		l := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: window})
		w.limits = append(w.limits, &simLimit{now: l, most: amount, fastest: amount, admitted: map[string][]admission{}, later: map[string]int64{}})
	}
	w.start()
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, time.Now().Format("04:05.000000 ")+fmt.Sprintf(format, args...))
}

func (w *world) traced() []string { return w.trace }

// step makes one event happen.
func (w *world) step() {
	switch p := w.procs[w.rng.IntN(len(w.procs))]; w.rng.IntN(25) {
	default:
		p.ask()
	case 6:
		p.sweep()
	case 7, 8, 9, 10, 11:
		p.goOn()
	case 12, 13:
		w.pass(time.Duration(w.rng.Int64N(int64(time.Second))))
	case 14:
		w.pass(time.Duration(w.rng.Int64N(int64(w.limits[w.rng.IntN(len(w.limits))].now.Window()))))
	case 15:
		w.reload()
	case 16:
		p.table.sweep(p.clock.Now(), func(<-chan struct{}) {}, func(int) {})
	case 17:
		w.beTold(p)
	case 18:
		if len(w.procs) < 3 {
			w.start()
		}
	case 19:
		if len(w.procs) > 1 {
			w.stop(p)
		}
	case 20:
		if w.sets {
			w.setClock(p)
		}
	case 22, 23, 24:
		if len(w.pending) > 0 {
			w.settle(w.rng.IntN(len(w.pending)))
		}
	case 21:
		if w.sets && w.rng.IntN(8) == 0 {
			w.pass(time.Duration(w.rng.Int64N(int64(2 * time.Hour))))
		}
	}
	synctest.Wait()
	w.collect()
	w.watchClocks()
}

func (w *world) start() {
	p := &process{world: w, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 3)), number: w.tracer.start()}
	p.wall.set.Store(w.set)
	p.wall.source = storage.Source{1}
	if w.private {
		p.wall.source = storage.Source{2, byte(len(w.trace)), byte(len(w.trace) >> 8)}
	}
	p.ctx, p.kill = context.WithCancel(context.Background())
	store := &hookedStore{
		disk:   w.disk,
		before: func([]storage.Claim) error { return p.atCommit() },
		after:  func() error { return p.perhaps() },
		tracer: w.tracer, machine: p.number,
	}
	var opened storage.Store = store
	if w.immediate {
		opened = &immediateStore{hookedStore: store, t: w.t, atOnce: p.atOnce, onDisk: p.number%2 == 1}
	}
	e := New(Options{
		resetInterval:   1000 * time.Hour,
		Open:            func(context.Context) (storage.Store, error) { return opened, nil },
		Name:            p.name,
		NameAtOnce:      p.nameAtOnce,
		Clock:           &p.wall,
		MaxKeys:         1 + w.rng.IntN(8),
		StoreTimeout:    1000 * time.Hour, // outages have tests of their own
		CleanupInterval: 1000 * time.Hour,
	})
	p.Engine = e
	w.procs = append(w.procs, p)
	w.note("process %p starts", p)
	synctest.Wait()
	if len(w.procs) == 1 && w.pace == (pace{}) {
		w.pace = w.time()
	}
	w.watchClocks()
}

// name returns a key's name. The process may be stopped before that.
func (p *process) name(id storage.LimitID, key string, remembered time.Duration, now int64) (Name, error) {
	n, err := simNames(id, key, remembered, now)
	return n, errors.Join(err, p.perhaps())
}

// nameAtOnce returns a name, or sometimes false.
func (p *process) nameAtOnce(id storage.LimitID, key string, remembered time.Duration, now int64) (Name, bool) {
	n, err := simNames(id, key, remembered, now)
	return n, err == nil && p.tries.Add(1)%8 > 0
}

// atOnce makes claims at once fail sometimes.
func (p *process) atOnce() error {
	switch n := p.tries.Add(1); {
	case p.dead.Load() || n%16 == 0:
		return storage.ErrNotAtOnce
	case n%61 == 0 && !p.world.telling:
		p.world.crashes++ // or as good as one
		return storage.ErrUnknownOutcome
	}
	return nil
}

// perhaps stops a process sometimes, as atCommit does.
func (p *process) perhaps() error {
	if p.rng.IntN(16) > 0 {
		return nil
	}
	return p.atCommit()
}

// sweep sweeps memory's store.
func (p *process) sweep() {
	p.committer.conn.sweepStep(context.Background())
	p.world.note("%p sweeps", p)
}

// atCommit holds a batch until the world lets it continue.
func (p *process) atCommit() error {
	switch {
	case p.dead.Load():
		return errDisk
	case p.letting.Load():
		return nil
	}
	c := &commitAttempt{make(chan error)}
	p.commit.Store(c)
	return <-c.verdict
}

// goOn lets the current batch be committed. It waits until one has filled up.
func (p *process) goOn() bool {
	if p.commit.Load() == nil {
		time.Sleep(gatherFor)
		synctest.Wait()
	}
	c := p.commit.Swap(nil)
	if c == nil {
		return false
	}
	c.verdict <- nil
	synctest.Wait()
	return true
}

// ask sends a request of one or more debits.
func (p *process) ask() {
	w := p.world
	a := &asked{decision: make(chan Decision, 1)}
	key := simKeys[w.rng.IntN(len(simKeys))]
	for _, i := range w.rng.Perm(len(w.limits))[:1+w.rng.IntN(len(w.limits))] {
		a.add(w.limits[i], key, w.cost())
		a.debits[len(a.debits)-1].Counting = []Counting{Always, Always, Held, Held, Afterwards}[w.rng.IntN(5)]
	}
	w.note("%p asked for %s", p, a)
	p.send(a)
}

func (a *asked) add(l *simLimit, key string, cost int64) {
	a.debits = append(a.debits, debit(l.now, key, cost))
	a.limits = append(a.limits, l)
}

func (a *asked) String() (s string) {
	for _, d := range a.debits {
		s += fmt.Sprintf(" %d (%d) of %v %d/%v %s", d.Cost, d.Counting, d.Limit.Algorithm(), d.Limit.Amount(), d.Limit.Window(), d.Key)
	}
	return s
}

func (w *world) cost() int64 {
	return []int64{0, 1, 1, 1, 1, 1, 1, 2, 3, 20}[w.rng.IntN(10)]
}

func (p *process) send(a *asked) {
	p.asked = append(p.asked, a)
	go func() {
		d := p.Decide(p.ctx, nil, a.debits)
		a.decided = p.world.time().Now
		a.decision <- d
	}()
}

// settle settles a pending request. Units held by its process come back only while the process
// runs.
func (w *world) settle(i int) {
	p := w.pending[i]
	units := []int64{0, 0, p.Cost(), p.Cost(), w.rng.Int64N(2*p.Cost() + 2)}[w.rng.IntN(5)]
	w.pending = slices.Delete(w.pending, i, i+1)
	if p.process.dead.Load() {
		return
	}
	w.note("%p is told about %d of %v: uses %d", p.process, p.Cost(), p.limit.now.Algorithm(), units)
	if p.traced && units < p.Cost() && !p.process.closed {
		w.tracer.unspent(p.process.number, &p.debit, p.Cost()-units)
	}
	p.SettleAt(units)
	switch {
	case !p.held && units > 0:
		p.limit.later[p.key] += p.Cost()
	case p.held && units > p.Cost():
		p.limit.later[p.key] += units - p.Cost()
	case p.held && !p.process.closed && p.number > 0:
		w.usesLess(p, units)
	}
}

// usesLess notes that an admitted request has used fewer units than it took.
func (w *world) usesLess(p *simPending, units int64) {
	all := p.limit.admitted[p.key]
	for i := range all {
		if all[i].number == p.number {
			all[i].cost = units
		}
	}
	p.limit.admitted[p.key] = slices.DeleteFunc(all, func(a admission) bool { return a.cost == 0 })
}

// pass lets time pass while batches stand still. Every minute it runs processes whose committer
// doesn't ask for the time.
func (w *world) pass(d time.Duration) {
	w.note("%v pass", d)
	for ; d > time.Minute; d -= time.Minute {
		time.Sleep(time.Minute)
		for _, p := range w.procs {
			p.committer.beginAsking()
		}
		synctest.Wait()
	}
	time.Sleep(d)
}

// reload changes the amount of a limit for future requests.
func (w *world) reload() {
	l := w.limits[w.rng.IntN(len(w.limits))]
	if l.now.Algorithm() == limiter.TokenBucket {
		return // its bound holds at one rate; see the invariants of package limiter
	}
	l.now = l.now.with(w.t, 1+w.rng.Int64N(2*l.now.Amount()+2))
	l.most = max(l.most, l.now.Capacity())
	l.fastest = max(l.fastest, l.now.Amount())
	w.note("%v is now %d/%v", l.now.Algorithm(), l.now.Amount(), l.now.Window())
}

// stop ends a process: cleanly, or with a crash that loses its memory, and the current batch or the
// answer that it was committed.
func (w *world) stop(p *process) {
	w.procs = slices.DeleteFunc(w.procs, func(q *process) bool { return q == p })
	if w.rng.IntN(2) == 0 {
		w.note("%p is closed", p)
		p.close()
		w.collectOf(p)
		p.closed = true
		return
	}
	w.note("%p crashes", p)
	w.crashes++
	p.dead.Store(true)
	w.tracer.crash(p.number)
	if c := p.commit.Swap(nil); c != nil {
		var verdict error // committed, and the answer was lost
		if w.rng.IntN(2) == 0 {
			verdict = errDisk
		}
		c.verdict <- verdict
	}
	p.kill()
	p.Close(context.Background())
}

// close stops a process cleanly, and lets the necessary batches be committed.
func (p *process) close() {
	p.letting.Store(true)
	p.goOn()
	if err := p.Close(context.Background()); err != nil {
		p.world.t.Error(err)
	}
	synctest.Wait()
}

// collect logs finished decisions and checks the promises.
func (w *world) collect() {
	for _, p := range w.procs {
		w.collectOf(p)
	}
}

func (w *world) collectOf(p *process) {
	p.took = [2]int64{p.took[1], p.clock.Line().Took}
	p.asked = slices.DeleteFunc(p.asked, func(a *asked) bool {
		select {
		case d := <-a.decision:
			w.decided(p, a, d)
			return true
		default:
			return false
		}
	})
}

func (w *world) decided(p *process, a *asked, d Decision) {
	w.note("%p decided %s: %+v", p, a, d)
	if d.Degraded && !p.letting.Load() { // a closing process may decide from memory
		w.t.Errorf("decided without the store: %+v", d)
	}
	if !d.Allowed {
		if d.Retry == 0 || d.Reason == None {
			w.t.Errorf("refused without a reason or a time to retry: %+v", d)
		}
		w.checkRetry(p, a, d)
		return
	}
	for i, l := range a.limits {
		key := string(a.debits[i].Key)
		cost, pending, number := a.debits[i].Cost, a.debits[i].Pending, 0
		spends := cost > 0 && (pending == nil || pending.held)
		if spends && !d.Degraded {
			w.tracer.spent(p.number, &a.debits[i])
		}
		if spends {
			number = w.admit(p, l, key, admission{at: min(a.debits[i].at, a.decided), decided: a.decided, cost: cost})
		}
		if pending != nil {
			w.pending = append(w.pending, &simPending{pending, p, a.debits[i], l, key, number, spends && !d.Degraded})
		}
	}
}

// checkRetry checks that no client is refused for longer than charged units are remembered,
// regardless of clocks that were set. Units charged at once are charged as of the time of their
// process, which may have been ahead of the store's. They count until the store's time is that much
// later. Until the store's time has caught up, the process' time stands still. After a call that took
// long, the store's time may be earlier by as much.
func (w *world) checkRetry(p *process, a *asked, d Decision) {
	var longest time.Duration
	for _, l := range a.limits {
		longest = max(longest, l.now.Retention(), l.now.Refill(2*l.most)) // it may owe as much as it may use
	}
	line := p.clock.Line()
	longest += time.Duration(max(line.Floor-line.Now, 0) + max(p.took[0], p.took[1], int64(d.Waited)))
	if longest += longest / storage.Slew * 2; !d.Degraded && d.Retry > longest+time.Microsecond {
		w.t.Errorf("refused for %v, want at most %v: %+v", d.Retry, longest, d)
	}
}

// admit logs an admission, and checks that it was in time. A process that doesn't know yet that the
// time was set spends units charged before. It returns the number of the admission, or 0.
func (w *world) admit(p *process, l *simLimit, key string, a admission) int {
	if line := p.clock.Line(); line.Shift != w.pace.Shift || line.Era != w.pace.Era {
		return 0
	}
	if late := a.decided - a.at; late > int64(spendWithin+spendWithin/10) && l.now.Algorithm() != limiter.TokenBucket {
		w.t.Errorf("admitted as of %v ago", time.Duration(late))
	}
	w.admitted++
	a.number = w.admitted
	l.admitted[key] = append(l.admitted[key], a)
	w.checkBound(l, key)
	return a.number
}

// checkBound checks the units admitted for a key against the promise "never more than the limit"
// (docs/promises.md). The bounds are those of the largest amount so far.
func (w *world) checkBound(l *simLimit, key string) {
	all := l.admitted[key]
	slices.SortFunc(all, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	window := int64(l.now.Window())
	for i, last := range all {
		sum := int64(0)
		for j := i; j >= 0; j-- {
			span, limit := last.at-all[j].at, l.most
			switch l.now.Algorithm() {
			case limiter.Sliding:
				if span >= window {
					j = 0
					continue
				}
			case limiter.Fixed:
				if all[j].at/window != last.at/window {
					j = 0
					continue
				}
			case limiter.TokenBucket:
				limit += span * l.fastest / window
			}
			if sum += all[j].cost; sum > limit {
				w.t.Errorf("%v %d/%v %s: %d admitted within %v, want at most %d",
					l.now.Algorithm(), l.most, l.now.Window(), key, sum, time.Duration(span), limit)
				return
			}
		}
	}
}

// quiet lets all waiting requests be decided.
func (w *world) quiet() {
	for {
		synctest.Wait()
		busy := false
		for _, p := range w.procs {
			busy = p.goOn() || busy
		}
		if !busy {
			break
		}
	}
	w.collect()
}

// beTold asks a process until it refuses, which memory does from then on (the promise "a blocked
// client costs little"). Then it waits for the returned retry time, and asks again, with no other
// traffic ("Retry-After is true"). A refusal from memory does not count: there may have been
// traffic in other processes since the refusal by the store.
func (w *world) beTold(p *process) {
	w.quiet()
	w.telling = true
	defer func() { w.telling = false }()
	l := w.limits[w.rng.IntN(len(w.limits))]
	once := func() Decision {
		a := &asked{decision: make(chan Decision, 1)}
		a.add(l, "key0", 1)
		w.note("%p asked in quiet for %s", p, a)
		p.send(a)
		synctest.Wait()
		for p.goOn() {
		}
		d := <-a.decision
		a.decision <- d
		w.collect()
		return d
	}
	for range 20 {
		if d := once(); !d.Allowed {
			if d.Reason == Blocked {
				return
			}
			ahead := p.clock.Now() - w.time().Now // if it stands still because its committer was stopped
			if d.Retry > 10*gatherFor+time.Duration(ahead) {
				if held := once(); held.Reason != Blocked {
					w.t.Errorf("refused for %v, and then it was %+v, want blocked", d.Retry, held)
				}
			}
			w.pass(d.Retry)
			if again := once(); !again.Allowed {
				w.t.Errorf("refused again after waiting for %v as told: %+v", d.Retry, again)
			}
			return
		}
	}
}

// end stops all processes cleanly. Then the disk knows exactly the admitted units, unless a process
// crashed, or one whose clock is ahead did not give back units that others still count.
func (w *world) end() {
	for len(w.pending) > 0 {
		w.settle(len(w.pending) - 1)
	}
	w.quiet()
	for len(w.pending) > 0 { // decisions since
		w.settle(len(w.pending) - 1)
	}
	for _, p := range w.procs {
		p.close()
		w.collectOf(p)
	}
	w.tracer.check(w.t)
	for _, l := range w.limits {
		if l.now.Algorithm() == limiter.TokenBucket {
			continue // drains; its bound is checked above
		}
		for key, all := range l.admitted {
			w.checkDisk(l, key, all, w.time().Now)
		}
	}
}

// checkDisk compares the units in use on the disk at now with the admitted ones.
func (w *world) checkDisk(l *simLimit, key string, all []admission, now int64) {
	oldest, newest := l.now.Oldest(now), l.now.Newest(now)
	least, most := int64(0), l.later[key]
	for _, a := range all {
		// It was charged in one of these slots: at most as late as its decision, and half a window
		// ahead.
		first, last := l.now.Slot(a.at), l.now.Slot(a.decided)+l.now.MaxAhead()
		if first >= oldest && last <= newest {
			least += a.cost
		}
		if last >= oldest && first <= newest {
			most += a.cost
		}
	}
	used := w.disk.used(l.now, key, now)
	if used < least || used > most && w.crashes == 0 && !w.sets {
		w.t.Errorf("%v/%v %s: %d charged on disk after %d crashes, %d to %d admitted",
			l.now.Algorithm(), l.now.Window(), key, used, w.crashes, least, most)
	}
}
