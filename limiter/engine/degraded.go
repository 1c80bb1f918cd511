package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// While the store can't be used, memory decides: each key may have a share of
// its limit, less what it is known to have used. What it gets that way is owed
// to the store, and charged there before anything else is claimed for the key.

const (
	firstProbe  = 100 * time.Millisecond
	lastProbe   = 10 * time.Second
	remindAfter = time.Minute
	openTimeout = 10 * time.Second

	proofID storage.LimitID = 0 // no limit has it
)

// outage is the time during which the store can't be used. Outages that follow
// one another closely are one: the next probe comes later each time, and the
// observer is told once a minute at most.
type outage struct {
	mu       sync.Mutex
	began    time.Time     // guarded by mu, like all below
	ended    time.Time     // of the last one; zero if there was none
	reminded time.Time     // when the observer was last told
	told     bool          // that the outage began, and not yet that it ended
	backoff  time.Duration // until the next probe
	cause    error         // what went wrong last
}

// begin returns when to probe first, when to tell that the outage goes on, and
// whether its beginning is worth telling.
func (o *outage) begin(cause error) (probe, remind time.Duration, tell bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.ended) > remindAfter {
		o.backoff = firstProbe
	} else {
		o.backoff = min(max(2*o.backoff, firstProbe), lastProbe)
	}
	o.began, o.cause = time.Now(), cause
	if silent := time.Since(o.reminded); silent < remindAfter {
		return jittered(o.backoff), remindAfter - silent, false
	}
	o.reminded, o.told = o.began, true
	return jittered(o.backoff), remindAfter, true
}

// goOn returns when to probe next.
func (o *outage) goOn(cause error) (probe time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cause = cause
	o.backoff = min(max(2*o.backoff, firstProbe), lastProbe)
	return jittered(o.backoff)
}

// remind returns how long the outage has lasted, and what went wrong last.
func (o *outage) remind() (since time.Duration, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reminded, o.told = time.Now(), true
	return max(o.reminded.Sub(o.began), 1), o.cause
}

// end returns how long the outage has lasted, and whether its end is worth
// telling.
func (o *outage) end() (lasted time.Duration, tell bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = time.Now()
	tell, o.told = o.told, false
	return o.ended.Sub(o.began), tell
}

// last returns when the last outage began, and what went wrong last.
func (o *outage) last() (began time.Time, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.began, o.cause
}

// jittered returns a duration of 3/4 to 5/4 of d, so that the probes of several
// processes spread.
func jittered(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2)
}

// degrade stops using the store. It may be called from any goroutine that holds
// no lock; the batch that is under way stays with the committer.
func (e *Engine) degrade(err error) {
	if !e.degraded.CompareAndSwap(false, true) {
		return
	}
	e.queue.setClosed(true)
	if b := e.queue.take(); b != nil {
		b.err = errNotSent
		e.undo(b)
		close(b.done)
	}
	probe, remind, tell := e.outage.begin(err)
	e.probe.Reset(probe)
	e.reminder.Reset(remind)
	if tell {
		e.opts.Observer.Degraded(0, err)
	}
}

// remind tells that the outage goes on. It runs on a timer's goroutine, because
// the store may hold up the committer for as long as it likes.
func (e *Engine) remind() {
	if !e.degraded.Load() || e.isStopped() {
		return
	}
	since, cause := e.outage.remind()
	e.reminder.Reset(remindAfter)
	e.opts.Observer.Degraded(since, cause)
}

// openStore opens the store for the first time.
func (e *Engine) openStore() {
	defer close(e.ready)
	if err := e.reopen(); err != nil {
		e.degrade(err)
		return
	}
	e.charged = e.store.Load().Store // memory knows nothing yet
	if err := e.join(); err != nil {
		e.degrade(err)
	}
}

// reopen replaces the store by a freshly opened one.
func (e *Engine) reopen() error {
	if old := e.store.Swap(nil); old != nil {
		old.Close() // what it has to say was said by the fault that led here
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	store, err := e.opts.Open(ctx)
	if err != nil {
		return err
	}
	if err := e.askTime(store); err != nil {
		store.Close()
		return err
	}
	e.store.Store(&opened{store})
	return nil
}

// recover tries to use the store again.
func (e *Engine) recover() {
	if !e.degraded.Load() {
		return
	}
	err := e.reopen()
	if err == nil {
		e.makeRoom() // if that is what it takes
		err = e.proveWritable()
	}
	if err == nil {
		err = e.catchUp()
	}
	if err == nil {
		err = e.punish()
	}
	if err == nil {
		err = e.join()
	}
	if err != nil {
		e.probe.Reset(e.outage.goOn(err))
		return
	}
	e.reminder.Stop()
	lasted, tell := e.outage.end()
	e.queue.setClosed(false)
	e.degraded.Store(false)
	if tell {
		e.opts.Observer.Recovered(lasted)
	}
}

// proveWritable charges a unit to a key that nobody counts by, because a store
// that opens and reads well may still be read-only.
func (e *Engine) proveWritable() error {
	limit, err := limiter.New(limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: limiter.MinWindow})
	if err != nil {
		return err
	}
	_, err = e.inTerms(e.store.Load(), func(in storage.Store, term *storage.Term) error {
		claim := storage.Claim{ID: proofID, Limit: limit, Claim: limiter.Claim{Now: term.Time.Now, Charge: limiter.Charge{Units: 1}}}
		return in.Claim(context.Background(), []storage.Claim{claim}, make([]limiter.Grant, 1))
	})
	return err
}

// local is what memory admitted for one key without the store.
type local struct {
	state limiter.State    // what was known to be used before, and all since
	debts []limiter.Charge // what was admitted and not charged yet, by slot
}

// newLocal starts from what is known of a key.
func newLocal(limit *Limit, known limiter.Lease) *local {
	l := new(local)
	switch {
	case limit.Algorithm() == limiter.TokenBucket:
		l.state.Bucket = limiter.Bucket{At: known.At, Units: known.Used, Part: known.Part}
	case known.Used > 0:
		l.state.Slots = []limiter.Slot{{Index: known.At, Used: known.Used}}
	}
	return l
}

// decideLocallyLocked decides from memory alone: it takes what leases cover from
// them, and the rest from a percentage of the limits.
func (r *request) decideLocallyLocked(part share) {
	r.Degraded = true
	var room [inlineDebits]limiter.Grant
	grants := room[:0]
	for i := range r.held {
		h, debit := &r.held[i], &r.debits[r.held[i].debit]
		var g limiter.Grant
		if h.short {
			g = h.cell.takeLocked(debit, r.now, part)
			if g.Units == 0 {
				h.cell.blockLocallyLocked(debit, g, r.now)
				r.refuse(OverLimit, h.debit, 0, g.Retry)
				r.Fresh = true
			}
		}
		grants = append(grants, g)
	}
	for i := range r.held {
		c, debit := r.held[i].cell, &r.debits[r.held[i].debit]
		switch {
		case r.Reason != None:
			c.undoTakeLocked(debit, grants[i].Lease, r.now)
		case r.held[i].short:
			c.addDebtLocked(debit.Limit, limiter.Charge{At: grants[i].At, Units: debit.Cost}, r.now)
			debit.Known, debit.at = true, r.now
			spent := grants[i].Lease
			spent.Units = 0
			reduced, _ := part.of(debit.Limit)
			debit.Quota, debit.Reduced = reduced.Quota(spent, r.now), reduced.Capacity()
		default:
			c.spendLocked(debit, r.now)
		}
	}
	r.Allowed = r.Reason == None
}

// takeLocked takes a debit from a share of its limit.
func (c *cell) takeLocked(debit *Debit, now int64, part share) limiter.Grant {
	if c.local == nil {
		c.local = newLocal(debit.Limit, c.lease)
	}
	c.limit = debit.Limit
	reduced, some := part.of(debit.Limit)
	if !some {
		return limiter.Grant{Retry: debit.Limit.Window()} // all of it is other processes'
	}
	reduced.Trim(&c.local.state, now)
	reduced.Coarsen(&c.local.state)
	g := reduced.Claim(&c.local.state, limiter.Claim{Now: now, Min: debit.Cost, Want: debit.Cost})
	if g.Retry == limiter.Never {
		g.Retry = debit.Limit.Window() // more than the share, but not more than the limit
	}
	return g
}

// undoTakeLocked reverses takeLocked.
func (c *cell) undoTakeLocked(debit *Debit, taken limiter.Lease, now int64) {
	if taken.Units > 0 {
		debit.Limit.Claim(&c.local.state, limiter.Claim{Now: now, Return: taken})
	}
}

// blockLocallyLocked remembers a refusal by memory.
func (c *cell) blockLocallyLocked(debit *Debit, g limiter.Grant, now int64) {
	c.blockLocked(block{
		until: now + int64(g.Retry), cost: debit.Cost,
		amount: debit.Limit.Amount(), capacity: debit.Limit.Capacity(),
		local: true,
	}, now)
}

// addDebtLocked notes units that are to be charged to the store.
func (c *cell) addDebtLocked(limit *Limit, charge limiter.Charge, now int64) {
	if c.local == nil { // it was about to be charged, and seemed settled
		c.local = newLocal(limit, c.lease)
		limit.Claim(&c.local.state, limiter.Claim{Now: now, Charge: charge})
	}
	c.limit = limit
	if limit.Algorithm() == limiter.TokenBucket {
		c.local.addBucketDebt(charge)
		return
	}
	owed := c.local.debts
	if last := len(owed) - 1; last >= 0 && limit.Together(owed[last].At, charge.At) {
		owed[last].At = max(owed[last].At, charge.At)
		owed[last].Units += charge.Units
		return
	}
	owed = slices.DeleteFunc(owed, func(c limiter.Charge) bool { return c.At < limit.Oldest(now) })
	c.local.debts = append(owed, charge)
}

// addBucketDebt notes units of a token bucket. What is in use by now, at the reduced
// rate at which memory has it drain, is all that there is to be charged: the
// rest has drained at the full rate as well.
func (l *local) addBucketDebt(charge limiter.Charge) {
	inUse := l.state.Bucket.Units
	if l.state.Bucket.Part > 0 {
		inUse++
	}
	for _, owed := range l.debts {
		charge.Units += owed.Units
	}
	charge.Units = min(charge.Units, inUse)
	l.debts = append(l.debts[:0], charge)
}

// settleDebtsLocked pays what memory has admitted since a claim was made from what the
// claim was granted, which came too late for the requests that waited for it.
// Memory counts the rest as used, since the key's lease holds it. Units are never
// booked before the slot they were spent in: against those of later slots, which are
// charged there with the next claim, as many are given back.
func (c *cell) settleDebtsLocked(limit *Limit, granted *limiter.Lease, now int64) (back limiter.Lease) {
	back.At = granted.At
	for i := range c.local.debts {
		owed := &c.local.debts[i]
		paid := min(owed.Units, granted.Units)
		switch {
		case limit.Slots() == 0:
			if paid = min(paid, limit.Worth(granted, now)); limit.Spend(granted, now, paid) {
				owed.Units -= paid
			}
		case owed.At > granted.At:
			granted.Units -= paid
			granted.Used -= paid
			back.Units += paid
			back.Used += paid
		default:
			granted.Units -= paid
			granted.Spent += paid
			owed.Units -= paid
		}
	}
	c.local.debts = slices.DeleteFunc(c.local.debts, func(owed limiter.Charge) bool { return owed.Units == 0 })
	rest := limiter.Charge{At: granted.At, Units: granted.Units}
	limit.Claim(&c.local.state, limiter.Claim{Now: now, Charge: rest})
	return back
}

// chargeLocked adds what a key owes to a batch. Once the store is in use again,
// that settles it. While claims are in flight it is kept, because what they are
// granted knows nothing of it and has to pay for it.
func (b *batch) chargeLocked(c *cell) {
	if c.local == nil || c.inFlight > 0 {
		return
	}
	for _, charge := range c.local.debts {
		if charge.Units == 0 {
			continue
		}
		b.entries = append(b.entries, &entry{cell: c, limit: c.limit, batch: b, charge: charge})
	}
	c.local.debts = nil
}

// owes tells whether something of the key is still to be charged.
func (c *cell) hasDebt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local != nil && len(c.local.debts) > 0
}
