package engine

import (
	"context"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// request is what is decided about, and how far that has come.
type request struct {
	Decision

	client *Client // who is refused if it is banned; nil is never banned
	draws  []Draw
	held   []held // one for each cell that is drawn from, in lock order
	now    int64  // as of when it is decided
	known  bool   // whether it is known how all clients stand
	late   bool   // whether it is too late to wait for the store
}

// held is a cell that a request locks, and what the request takes from it.
type held struct {
	cell  *cell
	draw  int    // index of the draw
	entry *entry // the claim that was made for it last, or nil
	short bool   // the lease does not cover the draw
}

// inlineDraws is how many draws a decision makes room for without allocating.
const inlineDraws = 8

// Decide decides about a request that takes all of draws or none. It sets Known
// and Quota of the draws it learns something about; two draws of one key and
// limit are made one. Decide waits for the store at most as long as the
// engine's StoreTimeout, and for nothing else.
func (e *Engine) Decide(ctx context.Context, draws []Draw) Decision {
	return e.DecideFor(ctx, nil, draws)
}

// DecideFor decides about a request of a client, which is refused if it is
// banned, whatever it draws. A client of nil is never banned.
func (e *Engine) DecideFor(ctx context.Context, client *Client, draws []Draw) Decision {
	var room [inlineDraws]held
	r := request{client: client, draws: draws, now: e.clock.now()}
	for {
		e.recallAll(&r)
		if r.Reason == None && !e.refuseAtOnce(&r) {
			r.held = e.hold(&r, room[:0])
			if !r.known || !e.spend(&r) {
				e.decideSlowly(ctx, &r)
			}
		}
		if r.Reason != OverLimit && r.Reason != Blocked || !e.blame(&r) {
			e.prolong(&r)
			return r.Decision
		}
		// The client has to wait for longer now than what it was refused by says.
		r.Decision = Decision{Fresh: r.Fresh, Waited: r.Waited}
		r.now = e.clock.now()
	}
}

// prolong has a client wait for as long as it takes until the time of the store has
// come that refuses it no more.
func (e *Engine) prolong(r *request) {
	if r.Retry <= 0 {
		return
	}
	known := e.clock.line.Load()
	r.Retry = known.Takes(r.Retry)
	for i := range r.draws {
		if draw := &r.draws[i]; draw.refused {
			draw.Quota.Reset = known.Takes(draw.Quota.Reset)
		}
	}
}

// refuseAtOnce refuses what memory knows to be refused. It takes no lock.
func (e *Engine) refuseAtOnce(r *request) bool {
	degraded := e.degraded.Load()
	for i := range r.draws {
		draw := &r.draws[i]
		draw.Known, draw.refused = false, false
		if draw.Cost > draw.Limit.Capacity() {
			r.refuse(TooCostly, i, 0, limiter.Never)
			draw.Known = false // what is left was not looked at
			continue
		}
		draw.cell = e.table.find(draw.Limit.ID, draw.Key)
		if draw.cell == nil || draw.Cost <= 0 {
			continue
		}
		if b := draw.cell.blocked(draw.Limit, draw.Cost, r.now, degraded); b != nil {
			reason := Blocked
			if r.Reason == TooCostly {
				reason = TooCostly
			}
			r.refuse(reason, i, b.left, time.Duration(b.until-r.now))
		}
	}
	return r.Reason != None
}

// refuse notes that draw i refuses for retry.
func (r *request) refuse(reason Reason, i int, left int64, retry time.Duration) {
	r.draws[i].Known, r.draws[i].refused = true, true
	r.draws[i].Quota = limiter.Quota{Remaining: left, Reset: retry}
	first := r.Reason == None
	r.Reason = reason
	if first || r.Retry != limiter.Never && (retry == limiter.Never || retry > r.Retry) {
		r.Draw, r.Retry = i, retry
	}
}

// hold returns the cells of all draws that cost something, in lock order, making
// those that are missing.
func (e *Engine) hold(r *request, hs []held) []held {
	for i := range r.draws {
		draw := &r.draws[i]
		if draw.Cost <= 0 {
			e.peek(draw)
			continue
		}
		if draw.cell == nil {
			draw.cell = e.cell(draw)
		}
		draw.cell.touch()
		hs = insert(hs, held{cell: draw.cell, draw: i}, r.draws)
	}
	return hs
}

// cell returns the cell of a draw, made if there is none.
func (e *Engine) cell(draw *Draw) *cell {
	return e.table.add(draw.Limit.ID, draw.Key)
}

// peek tells a draw that costs nothing what is left.
func (e *Engine) peek(draw *Draw) {
	if draw.cell == nil {
		return
	}
	draw.cell.mu.Lock()
	defer draw.cell.mu.Unlock()
	draw.Known = true
	draw.Quota = draw.Limit.Quota(draw.cell.lease, e.clock.now())
}

// insert adds h to hs, which is in lock order, or merges it with its like.
func insert(hs []held, h held, draws []Draw) []held {
	i := len(hs)
	for i > 0 && h.cell.before(hs[i-1].cell) {
		i--
	}
	if i > 0 && hs[i-1].cell == h.cell {
		draws[hs[i-1].draw].Cost += draws[h.draw].Cost
		draws[h.draw].Cost = 0
		return hs
	}
	hs = append(hs, h)
	copy(hs[i+1:], hs[i:])
	hs[i] = h
	return hs
}

// before is the order in which cells are locked.
func (c *cell) before(other *cell) bool {
	if c.id != other.id {
		return c.id < other.id
	}
	return c.key < other.key
}

// lock locks all cells, replacing those that were evicted since they were
// found.
func (e *Engine) lock(r *request) {
	for i := 0; i < len(r.held); i++ {
		h := &r.held[i]
		h.cell.mu.Lock()
		if !h.cell.dead {
			continue
		}
		h.cell.mu.Unlock()
		unlock(r.held[:i])
		h.cell = e.cell(&r.draws[h.draw])
		i = -1
	}
}

func unlock(hs []held) {
	for i := range hs {
		hs[i].cell.mu.Unlock()
	}
}

// spend allows the request if every draw is covered by its lease.
func (e *Engine) spend(r *request) bool {
	e.lock(r)
	defer unlock(r.held)
	return r.spendLocked()
}

func (r *request) spendLocked() bool {
	if !r.coveredLocked() {
		return false
	}
	for i := range r.held {
		h := &r.held[i]
		h.cell.spendLocked(&r.draws[h.draw], r.now)
	}
	r.Allowed = true
	return true
}

// coveredLocked notes which draws their leases don't cover, and tells whether
// there are none.
func (r *request) coveredLocked() bool {
	covered := true
	for i := range r.held {
		h := &r.held[i]
		h.short = !h.cell.spendableLocked(&r.draws[h.draw], r.now)
		covered = covered && !h.short
	}
	return covered
}

// spendWithin is how old a batch may be for what it granted to be spent as of then.
const spendWithin = time.Second

// decideSlowly claims what is missing and waits for it until all of it is there
// or some of it is refused.
//
// What was granted by a batch is spent at the batch's time: the request was
// waiting then, so that is when it is admitted. That is so if it comes in time: a
// process that was stopped for a while does not admit as of then.
func (e *Engine) decideSlowly(ctx context.Context, r *request) {
	before := r.Waited
	defer func(start time.Time) { r.Waited = before + time.Since(start) }(time.Now())
	r.late = !e.waiting.begin() // nobody waits any more for a store that is about to be closed
	if !r.late {
		defer e.waiting.leave()
		e.awaitOpen(ctx)
	}
	timeout, answers := time.NewTimer(e.opts.StoreTimeout-before), e.answers.Load()
	defer timeout.Stop()
	e.meetAll(r)
	for round := 0; ; round++ {
		b, decided := e.spendOrClaim(r, round > 0)
		if decided {
			return
		}
		if b == nil {
			continue // the queue was closed in this moment
		}
		switch e.await(ctx, b, timeout) {
		case nil:
			r.now = b.now
			if e.clock.source.Elapsed()-b.taken > int64(min(spendWithin, e.opts.StoreTimeout)) {
				r.now = e.clock.now()
			}
			e.recallAll(r)
			if e.refused(r, round > 0) {
				return
			}
		case errTimeout:
			// A store that has answered others in all this time is slow, or busy, but in use.
			if before == 0 && e.answers.Load() == answers {
				e.degrade(errTimeout)
			}
			r.late = true
			r.now = e.clock.now()
		case context.Canceled:
			r.Reason = Abandoned
			return
		default: // the store failed
			r.now = e.clock.now()
		}
	}
}

// awaitOpen waits for the store to be opened for the first time, up to
// startTimeout after the engine was started.
func (e *Engine) awaitOpen(ctx context.Context) {
	select {
	case <-e.ready:
		return
	default:
	}
	select {
	case <-e.ready:
	case <-e.started:
	case <-ctx.Done():
	}
}

// spendOrClaim spends if it can, decides without the store if that can't be
// used or it is too late to wait for it, and otherwise claims what is missing,
// to be had when the batch is done.
//
// A request that claims again claims all that it draws, so that it has all of it as
// of one time: where the store takes longer than a slot, what one batch granted may
// be worth nothing when another has granted the rest.
func (e *Engine) spendOrClaim(r *request, again bool) (b *batch, decided bool) {
	e.lock(r)
	defer unlock(r.held)
	alone := r.late || e.degraded.Load() // without the store
	switch {
	case !r.known && !alone:
		r.coveredLocked()
	case r.spendLocked():
		return nil, true
	case alone:
		r.decideLocallyLocked(e.share())
		return nil, true
	}
	b = e.queue.join(func(b *batch) {
		b.askLocked(r.client)
		for i := range r.draws {
			b.askLocked(r.draws[i].Client)
		}
		for i := range r.held {
			h := &r.held[i]
			h.entry = nil
			if h.short || again {
				h.entry = b.claimLocked(h.cell, &r.draws[h.draw], r.now)
			}
		}
	})
	return b, false
}

// await waits until a batch is done and returns its error; errTimeout if that
// takes too long, and context.Canceled if ctx ends, for whatever reason.
func (e *Engine) await(ctx context.Context, b *batch, timeout *time.Timer) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return context.Canceled
	case <-timeout.C:
	}
	select {
	case <-b.done:
		timeout.Reset(0) // who waits again waits no longer
		return b.err
	default:
		return errTimeout
	}
}

// refused notes which claims were refused, and if any was, gives back what is
// held for the other keys: the request was in vain, and the next ones are
// refused from memory.
func (e *Engine) refused(r *request, twice bool) bool {
	for i := range r.held {
		if en := r.held[i].entry; en != nil && en.refused(twice) && r.Reason != Banned {
			r.refuse(OverLimit, r.held[i].draw, en.limit.Left(en.grant.Lease), en.grant.Retry)
			r.Fresh = en.fresh.CompareAndSwap(true, false) || r.Fresh
		}
	}
	if r.Reason == None {
		return false
	}
	for i := range r.held {
		if en := r.held[i].entry; en == nil || !en.refused(twice) {
			e.release(r.held[i].cell)
		}
	}
	return true
}

// release gives back what a cell holds, unless somebody may be waiting for it.
func (e *Engine) release(c *cell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inFlight == 0 && !c.dead {
		e.giveBackLocked(c)
	}
}
