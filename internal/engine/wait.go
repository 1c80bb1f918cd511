package engine // decision

import (
	"context"
	"sync"
	"time"
)

// spendWithin is the maximum age of a batch for its grants to be spent as of its time.
const spendWithin = time.Second

// decideSlowly claims the missing units and waits until all are granted or some are refused.
//
// Units granted by a batch are spent at the batch's time: the request was waiting then, so that is
// the time of its admission. There is a limit: a process that was stopped for a while does not
// admit as of the time before.
func (r *request) decideSlowly(ctx context.Context, e *Engine) {
	before := r.Waited
	defer func(start time.Time) { r.Waited = before + time.Since(start) }(time.Now())
	r.late = !e.committer.waiting.begin() // no request waits any more for a store that is about to be closed
	if !r.late {
		defer e.committer.waiting.leave()
		e.committer.awaitOpen(ctx)
	}
	timeout, answers := e.timers.start(e.opts.now().StoreTimeout-before), e.committer.writer.answers.Load()
	defer e.timers.stop(timeout)
	e.table.ensureClients(r)
	for round := 0; ; round++ {
		b, decided := r.spendOrClaim(e, round > 0)
		if decided {
			return
		}
		if b == nil {
			continue // the queue was closed in this moment
		}
		switch b.await(ctx, timeout) {
		case nil:
			r.now = b.now
			if e.clock.Elapsed()-b.taken > int64(min(spendWithin, e.opts.now().StoreTimeout)) {
				r.now = e.clock.Now()
			}
			r.applyClients(e)
			if r.isRefused(e, round > 0) {
				return
			}
		case errTimeout:
			// A store that has answered other requests in all this time is slow, or busy, but in
			// use (decision 37).
			if before == 0 && e.committer.writer.answers.Load() == answers {
				e.committer.degrade(errTimeout)
			}
			r.late = true
			r.now = e.clock.Now()
		case context.Canceled:
			r.Reason = Abandoned
			return
		default: // the store failed
			r.now = e.clock.Now()
		}
	}
}

// timers are timers that fired or were stopped, to be used again by the waiting requests of an engine.
type timers struct{ pool sync.Pool }

func (t *timers) start(d time.Duration) *time.Timer {
	timer, ok := t.pool.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(d)
	}
	timer.Reset(d)
	return timer
}

func (t *timers) stop(timer *time.Timer) {
	timer.Stop()
	t.pool.Put(timer)
}

// spendOrClaim spends if it can. It decides without the store if that can't be used or if it is too
// late to wait for it. Otherwise it claims the missing units, which are available when the batch is
// done.
//
// A request that claims again claims for all of its debits, so that all units are of one time. If
// the store takes longer than a slot, the units of one batch may be worth nothing when another
// batch has granted the rest.
func (r *request) spendOrClaim(e *Engine, again bool) (b *batch, decided bool) {
	r.lock(e)
	defer unlock(r.held)
	alone := r.late || e.committer.degraded.Load() // without the store
	switch {
	case !r.known && !alone:
		r.coveredLocked()
	case r.spendLocked():
		return nil, true
	case alone:
		r.decideLocallyLocked(e.share())
		return nil, true
	}
	if at, ok := e.committer.leases.alone(); ok {
		at.learnLocked(r)
	}
	b = e.committer.queue.join(func(b *batch) {
		b.readLocked(r.client)
		for i := range r.debits {
			b.readLocked(r.debits[i].Client)
			if r.debits[i].record.exists() {
				b.readCellLocked(r.debits[i].record)
			}
		}
		for i := range r.held {
			h := &r.held[i]
			h.entry = nil
			if h.short || again {
				h.entry = b.claimLocked(h.cell, &r.debits[h.debit], r.now)
			}
		}
	})
	return b, false
}

// isRefused notes the refused claims. If there are any, it gives back the units held for the other
// keys: this request can't use them, and the next ones are refused from memory.
func (r *request) isRefused(e *Engine, twice bool) bool {
	for i := range r.held {
		if en := r.held[i].entry; en != nil && en.refused(twice) && r.Reason != Banned &&
			en.holdsFor(&r.debits[r.held[i].debit], twice) {
			debit := r.held[i].debit
			r.refuse(OverLimit, debit, en.grant.Lease.Left(&en.limit.Rate),
				r.debits[debit].retry(en.grant.Retry, r.now))
			r.Fresh = en.fresh.CompareAndSwap(true, false) || r.Fresh
		}
	}
	r.refusePenalized(e)
	if r.Reason == None {
		return false
	}
	for i := range r.held {
		if en := r.held[i].entry; en == nil || !en.refused(twice) || !en.holdsFor(&r.debits[r.held[i].debit], twice) {
			e.release(r.held[i].cell)
		}
	}
	return true
}

// release gives back a cell's lease, unless another request may be waiting for it.
func (e *Engine) release(c cell) {
	c = c.lockPresent()
	defer c.Unlock()
	if c.rare().inFlight == 0 && !c.Dead() {
		e.committer.leases.giveBackLocked(c)
	}
}

// waiting counts the decisions that may wait for a batch.
type waiting struct {
	mu    sync.Mutex
	ended bool // guarded by mu: no decision begins to wait any more
	count sync.WaitGroup
}

// begin counts a decision if any may still begin. It must then be followed by leave.
func (w *waiting) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.count.Add(1)
	}
	return !w.ended
}

func (w *waiting) leave() { w.count.Done() }

// end prevents further decisions from waiting, and returns a channel that is closed when all have
// left.
func (w *waiting) end() (over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	left := make(chan struct{})
	go func() {
		w.count.Wait()
		close(left)
	}()
	return left
}
