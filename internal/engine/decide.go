package engine // decision

import (
	"bytes"
	"context"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// request is a request with the progress of its decision.
type request struct {
	Decision

	client *Client // refused if it is banned; nil is never banned
	debits []Debit
	held   []held // one for each cell of the debits, in lock order
	now    int64  // the time of the decision
	known  bool   // the records of all clients are known
	late   bool   // it is too late to wait for the store
}

// held is a cell that a request locks, and the units that the request takes from it.
type held struct {
	cell  cell
	debit int    // index of the debit
	entry *entry // the last claim made for it, or nil
	short bool   // the lease does not cover the debit
}

// inlineDebits is how many debits a decision makes room for without allocating.
const inlineDebits = 4

// Decide charges all debits of a request or none. It refuses the request of a banned client,
// regardless of its limits; a nil client is never banned. Decide sets Known and Quota of the debits
// whose state it learns. Of two debits of one key and limit, it adds the second cost to the first.
// It waits for the store for at most the engine's StoreTimeout, and for nothing else.
func (e *Engine) Decide(ctx context.Context, client *Client, debits []Debit) Decision {
	var room [inlineDebits]held
	r := request{client: client, debits: debits, now: e.clock.Now()}
	for {
		r.applyClients(e)
		if r.Reason == None && !r.refuseAtOnce(e) {
			r.held = r.hold(e, room[:0])
			if !r.known || !r.spend(e) {
				r.decideSlowly(ctx, e)
			}
		}
		if stored := r.penalize(e); stored != nil {
			r.awaitStored(ctx, e, stored)
		}
		if r.Reason != OverLimit && r.Reason != Blocked || !r.recordViolations(e) {
			return r.conclude(e)
		}
		// The violations made the retry time longer than that of this refusal.
		r.Decision = Decision{Fresh: r.Fresh, Waited: r.Waited}
		r.now = e.clock.Now()
	}
}

// conclude ends a decision, and sets the engine of its pending debits. The request itself has no
// pointer to the engine: with one, its arrays would move from the stack to the heap.
func (r *request) conclude(e *Engine) Decision {
	r.countRefusals()
	r.prolong(e)
	for i := range r.debits {
		if p := r.debits[i].Pending; p != nil {
			p.engine = e
		}
	}
	return r.Decision
}

// countRefusals counts the request in the cells of the refusing debits.
func (r *request) countRefusals() {
	if r.Allowed {
		return
	}
	for i := range r.debits {
		if debit := &r.debits[i]; debit.refused && debit.cell.exists() {
			debit.cell.refused.add()
		}
	}
}

// prolong lengthens the retry time if the store's time is behind that of the decision, or is slowed
// down, so that the store no longer refuses the client then.
func (r *request) prolong(e *Engine) {
	if r.Retry <= 0 {
		return
	}
	known := e.clock.Line()
	var behind time.Duration
	if r.Reason != Banned { // memory ends a ban, by its own time
		behind = time.Duration(max(r.now-e.clock.Least(), 0))
	}
	r.Retry = known.Takes(r.Retry + behind)
	for i := range r.debits {
		if debit := &r.debits[i]; debit.refused {
			debit.Quota.Reset = known.Takes(debit.Quota.Reset + behind)
		}
	}
}

// Refuses reports whether memory knows that Decide refuses one of the debits. It takes no lock, and
// charges and records nothing.
func (e *Engine) Refuses(debits []Debit) bool {
	r := request{debits: debits, now: e.clock.Now()}
	return r.refuseAtOnce(e)
}

// refuseAtOnce refuses the request if memory knows that a debit is refused. It takes no lock.
func (r *request) refuseAtOnce(e *Engine) bool {
	degraded := e.committer.degraded.Load()
	for i := range r.debits {
		debit := &r.debits[i]
		debit.Known, debit.refused = false, false
		if debit.Cost > debit.Whole().Capacity() {
			r.refuse(TooCostly, i, 0, limiter.Never)
			debit.Known = false // the quota left is unknown
			continue
		}
		debit.cell = e.table.find(debit.Limit.ID, debit.Key)
		if left := e.table.penalized(debit, r.now); left > 0 {
			r.refuse(max(r.Reason, Blocked), i, 0, left)
		}
		if left, exceeds := debit.exceedsForeign(r.now); exceeds {
			r.refuse(max(r.Reason, Blocked), i, left, debit.retry(limiter.Never, r.now))
			continue
		}
		if !debit.cell.exists() || debit.Cost <= 0 || !e.table.findPenalty(debit) && !degraded {
			continue
		}
		if b := debit.cell.blocks().refuses(debit.Limit, debit.Cost, r.now, degraded); b != nil {
			reason := Blocked
			if r.Reason == TooCostly {
				reason = TooCostly
			}
			r.refuse(reason, i, b.left, debit.retry(time.Duration(b.until-r.now), r.now))
		}
	}
	return r.Reason != None
}

// refuse notes that debit i refuses the request for retry.
func (r *request) refuse(reason Reason, i int, left int64, retry time.Duration) {
	r.debits[i].Known, r.debits[i].refused = true, true
	r.debits[i].Quota = limiter.Quota{Remaining: left, Reset: retry}
	first := r.Reason == None
	r.Reason = reason
	if first || r.Retry != limiter.Never && (retry == limiter.Never || retry > r.Retry) {
		r.Debit, r.Retry = i, retry
	}
}

// hold returns the cells of all debits with a cost, in lock order. It adds missing cells.
func (r *request) hold(e *Engine, hs []held) []held {
	for i := range r.debits {
		debit := &r.debits[i]
		if debit.Cost <= 0 {
			debit.peek(e.clock.Now())
			continue
		}
		if !debit.cell.exists() {
			debit.cell = e.table.add(kindOf(debit.Limit), debit.Limit.ID, debit.Key)
		}
		debit.cell.Touch()
		hs = insert(hs, held{cell: debit.cell, debit: i}, r.debits)
	}
	return hs
}

// peek sets the quota of a debit without a cost.
func (d *Debit) peek(now int64) {
	if !d.cell.exists() {
		return
	}
	d.cell = d.cell.lockPresent()
	defer d.cell.Unlock()
	d.Known = true
	lease := d.cell.leaseLocked()
	d.Quota = lease.Quota(&d.Limit.Rate, now)
}

// insert adds h to hs, which is in lock order, or merges it with the element of the same key. Their
// bodies differ if the cell was moved or evicted in between.
func insert(hs []held, h held, debits []Debit) []held {
	i := len(hs)
	for i > 0 && h.cell.before(hs[i-1].cell) {
		i--
	}
	if i > 0 && hs[i-1].cell.isSame(h.cell) {
		if debits[hs[i-1].debit].Counting != debits[h.debit].Counting {
			debits[hs[i-1].debit].Counting = Always
		}
		debits[hs[i-1].debit].Cost += debits[h.debit].Cost
		debits[h.debit].Cost = 0
		return hs
	}
	hs = append(hs, h)
	copy(hs[i+1:], hs[i:])
	hs[i] = h
	return hs
}

// before is the order in which cells are locked.
func (c cell) before(other cell) bool {
	if c.ID != other.ID {
		return c.ID < other.ID
	}
	return bytes.Compare(c.text(), other.text()) < 0
}

// lock locks all cells. It replaces bodies that died after they were found.
func (r *request) lock(e *Engine) {
	for i := 0; i < len(r.held); i++ {
		h := &r.held[i]
		h.cell.Lock()
		if !h.cell.Dead() {
			continue
		}
		h.cell.Unlock()
		unlock(r.held[:i])
		h.cell = e.table.add(h.cell.Kind(), h.cell.ID, h.cell.text())
		r.debits[h.debit].cell = h.cell
		i = -1
	}
}

func unlock(hs []held) {
	for i := range hs {
		hs[i].cell.Unlock()
	}
}

// spend allows the request if every debit is covered by its lease, or if the missing units can be
// claimed at once.
func (r *request) spend(e *Engine) bool {
	r.lock(e)
	defer unlock(r.held)
	if r.spendLocked() {
		r.renewLocked(e)
		return true
	}
	return r.spendAtOnceLocked(e)
}

func (r *request) spendLocked() bool {
	if !r.coveredLocked() {
		return false
	}
	for i := range r.held {
		h := &r.held[i]
		r.takeLocked(h.cell, &r.debits[h.debit])
	}
	r.Allowed = true
	return true
}

// takeLocked takes a debit from the lease of a cell, which covers it.
func (r *request) takeLocked(c cell, d *Debit) {
	if d.Counting == Always {
		c.spendLocked(d, r.now)
	} else {
		r.reserveLocked(c, d)
	}
}

// coveredLocked marks the debits that their leases don't cover, and reports whether there are none.
func (r *request) coveredLocked() bool {
	covered := true
	for i := range r.held {
		h := &r.held[i]
		h.short = !h.cell.spendableLocked(&r.debits[h.debit], r.now)
		covered = covered && !h.short
	}
	return covered
}
