package engine

import (
	"context"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

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
func (e *Engine) DecideFor(ctx context.Context, client *Client, draws []Draw) (d Decision) {
	now := e.clock.now()
	e.decide(ctx, client, draws, now, &d)
	if (d.Reason == OverLimit || d.Reason == Blocked) && !d.Degraded && e.blame(client, draws, now) {
		// The client has to wait for longer now than what it was refused by says.
		d = Decision{Fresh: d.Fresh, Waited: d.Waited}
		e.decide(ctx, client, draws, e.clock.now(), &d)
	}
	return d
}

// decide is [Engine.DecideFor] without its consequences. What d says to have been
// waited for counts.
func (e *Engine) decide(ctx context.Context, client *Client, draws []Draw, now int64, d *Decision) {
	known := e.stands(client, draws, now, d)
	if d.Reason != None || e.refuseAtOnce(draws, now, d) {
		return
	}
	var room [inlineDraws]held
	hs := e.hold(room[:0], draws)
	if known && e.spendAll(hs, draws, now) {
		d.Allowed = true
		return
	}
	e.decideSlowly(ctx, client, known, hs, draws, now, d)
}

// refuseAtOnce refuses what memory knows to be refused. It takes no lock.
func (e *Engine) refuseAtOnce(draws []Draw, now int64, d *Decision) bool {
	degraded := e.degraded.Load()
	for i := range draws {
		draw := &draws[i]
		draw.Known, draw.refused = false, false
		if draw.Cost > draw.Limit.Capacity() {
			d.refuse(TooCostly, draws, i, 0, limiter.Never)
			draw.Known = false // what is left was not looked at
			continue
		}
		draw.cell = e.table.find(draw.Limit.ID, draw.Key)
		if draw.cell == nil || draw.Cost <= 0 {
			continue
		}
		if b := draw.cell.blocked(draw.Limit, draw.Cost, now, degraded); b != nil {
			reason := Blocked
			if d.Reason == TooCostly {
				reason = TooCostly
			}
			d.refuse(reason, draws, i, b.left, time.Duration(b.until-now))
		}
	}
	return d.Reason != None
}

// hold returns the cells of all draws that cost something, in the order in
// which they are locked, making those that are missing.
func (e *Engine) hold(hs []held, draws []Draw) []held {
	for i := range draws {
		draw := &draws[i]
		if draw.Cost <= 0 {
			e.peek(draw)
			continue
		}
		if draw.cell == nil {
			draw.cell = e.cell(draw)
		}
		draw.cell.touch()
		hs = insert(hs, held{cell: draw.cell, draw: i}, draws)
	}
	return hs
}

// cell returns the cell of a draw, made if there is none.
func (e *Engine) cell(draw *Draw) *cell {
	c, back := e.table.add(draw.Limit.ID, draw.Key)
	e.giveBack(back)
	return c
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
func (e *Engine) lock(hs []held, draws []Draw) {
	for i := 0; i < len(hs); i++ {
		hs[i].cell.mu.Lock()
		if !hs[i].cell.dead {
			continue
		}
		hs[i].cell.mu.Unlock()
		unlock(hs[:i])
		hs[i].cell = e.cell(&draws[hs[i].draw])
		i = -1
	}
}

func unlock(hs []held) {
	for i := range hs {
		hs[i].cell.mu.Unlock()
	}
}

// spendAll takes every draw from its lease, if all of them are covered.
func (e *Engine) spendAll(hs []held, draws []Draw, now int64) bool {
	e.lock(hs, draws)
	defer unlock(hs)
	return spendAllLocked(hs, draws, now)
}

func spendAllLocked(hs []held, draws []Draw, now int64) bool {
	if !coveredLocked(hs, draws, now) {
		return false
	}
	for i := range hs {
		hs[i].cell.spendLocked(&draws[hs[i].draw], now)
	}
	return true
}

// coveredLocked notes which draws their leases don't cover, and tells whether
// there are none.
func coveredLocked(hs []held, draws []Draw, now int64) bool {
	covered := true
	for i := range hs {
		h := &hs[i]
		h.short = !h.cell.spendableLocked(&draws[h.draw], now)
		covered = covered && !h.short
	}
	return covered
}

// decideSlowly claims what is missing and waits for it until all of it is there
// or some of it is refused.
//
// What was granted by a batch is spent at the batch's time: the request was
// waiting then, so that is when it is admitted.
func (e *Engine) decideSlowly(ctx context.Context, client *Client, known bool, hs []held, draws []Draw, now int64, d *Decision) {
	before := d.Waited
	defer func(start time.Time) { d.Waited = before + time.Since(start) }(time.Now())
	late := !e.waiting.TryRLock() // nobody waits any more for a store that is about to be closed
	if !late {
		defer e.waiting.RUnlock()
		e.awaitOpen(ctx)
	}
	timeout := time.NewTimer(e.opts.StoreTimeout - before)
	defer timeout.Stop()
	e.meetAll(client, draws)
	for round := 0; ; round++ {
		b, decided := e.spendOrClaim(client, known, hs, draws, now, late, d)
		if decided {
			return
		}
		if b == nil {
			continue // the queue was closed in this moment
		}
		switch e.await(ctx, b, timeout) {
		case nil:
			now = b.now
			known = e.stands(client, draws, now, d)
			if e.refused(hs, draws, now, d) {
				return
			}
		case errTimeout:
			if round == 0 && before == 0 { // the store had all the time there is for this batch
				e.degrade(errTimeout)
			}
			late = true
			now = e.clock.now()
		case context.Canceled:
			d.Reason = Abandoned
			return
		default: // the store failed
			now = e.clock.now()
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
func (e *Engine) spendOrClaim(client *Client, known bool, hs []held, draws []Draw, now int64, late bool, d *Decision) (b *batch, decided bool) {
	e.lock(hs, draws)
	defer unlock(hs)
	alone := late || e.degraded.Load() // without the store
	switch {
	case !known && !alone:
		coveredLocked(hs, draws, now)
	case spendAllLocked(hs, draws, now):
		d.Allowed = true
		return nil, true
	case alone:
		e.decideLocallyLocked(hs, draws, now, d)
		return nil, true
	}
	b = e.queue.join(func(b *batch) {
		b.askLocked(client)
		for i := range draws {
			b.askLocked(draws[i].Client)
		}
		for i := range hs {
			h := &hs[i]
			h.entry = nil
			if h.short {
				h.entry = b.claimLocked(h.cell, &draws[h.draw], now)
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
func (e *Engine) refused(hs []held, draws []Draw, now int64, d *Decision) bool {
	for i := range hs {
		if en := hs[i].entry; en != nil && en.refused() && d.Reason != Banned {
			d.refuse(OverLimit, draws, hs[i].draw, en.limit.Left(en.grant.Lease), en.grant.Retry)
			d.Fresh = en.fresh.CompareAndSwap(true, false) || d.Fresh
		}
	}
	if d.Reason == None {
		return false
	}
	for i := range hs {
		if en := hs[i].entry; en == nil || !en.refused() {
			e.giveBack(hs[i].cell.release())
		}
	}
	return true
}

// release takes the lease of a cell to be given back, unless somebody may be
// waiting for it.
func (c *cell) release() returned {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lease.Holds() || c.inFlight > 0 || c.dead {
		return returned{}
	}
	return returned{c, c.limit, c.takeLeaseLocked()}
}
