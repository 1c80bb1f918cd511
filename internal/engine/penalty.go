package engine // decision

import (
	"context"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Penalty says for how long a key stays refused that goes over a limit, whatever is free meanwhile (decision 183).
// The engine keeps the pointer; callers must not change the penalty behind it.
type Penalty struct {
	// Scope is that of the names of the keys' records: the ID of the limit, unless the limit is a shadow. The
	// retention of the limit must be at least as long as a penalty lasts.
	Scope storage.LimitID
	// For is how long the key stays refused.
	For time.Duration
	// FromLast counts For from the last refused request, and not from the first one.
	FromLast bool
}

// renewals is how often a penalty from the last request is renewed in its time, at most.
const renewals = 60

// Lasts returns the longest time for which one refusal refuses a key.
func (p *Penalty) Lasts() time.Duration {
	if p.FromLast {
		return p.For + p.For/renewals // until it is renewed
	}
	return p.For
}

// offense returns the entry of a key's record.
func (p *Penalty) offense(now int64) reputation.Offense {
	o := reputation.Offense{Violation: reputation.Violation{At: now, Reason: reputation.Blocked},
		Ban: reputation.Ban{For: p.Lasts(), After: 1}}
	if p.FromLast {
		o.Ban.Within = max(p.For/renewals, 1)
	}
	return o
}

// findPenalty finds the record of the debit's key, and reports whether it is known. Without a penalty there is none.
func (t *cells) findPenalty(d *Debit) (known bool) { return d.Penalty == nil || t.findRecord(d) }

// findRecord is findPenalty for a debit with a penalty.
func (t *cells) findRecord(d *Debit) (known bool) {
	if !d.record.exists() {
		if d.record = t.find(^d.Penalty.Scope, d.Key); d.record.exists() {
			d.record.Touch()
		}
	}
	return d.record.exists() && d.record.client().record.Load() != nil
}

// ensurePenalty adds a missing cell for the record of the debit's key.
func (t *cells) ensurePenalty(d *Debit) {
	if d.Penalty == nil {
		return
	}
	if !d.record.exists() {
		d.record = t.add(ofClient, ^d.Penalty.Scope, d.Key)
	}
	d.record.client().retention.Store(int64(d.Limit.Retention()))
}

// penaltyOf returns for how much longer a penalty, which may be nil, of a key lasts that memory knows, or 0.
func (t *cells) penaltyOf(p *Penalty, key []byte, now int64) time.Duration {
	if p == nil {
		return 0
	}
	if c := t.find(^p.Scope, key); c.exists() {
		return c.client().blockedFor(now)
	}
	return 0
}

// penalized returns for how much longer the penalty of the debit's key lasts that memory knows, or 0. It takes no lock.
func (t *cells) penalized(d *Debit, now int64) time.Duration {
	if d.Penalty == nil {
		return 0
	}
	return t.penaltyLeft(d, now)
}

// penaltyLeft is penalized for a debit with a penalty.
func (t *cells) penaltyLeft(d *Debit, now int64) time.Duration {
	if d.Cost <= 0 || !t.findRecord(d) {
		return 0
	}
	return d.record.client().blockedFor(now)
}

// refusePenalized refuses the request if the penalty of a key lasts whose limit doesn't refuse it.
func (r *request) refusePenalized(e *Engine) {
	for i := range r.debits {
		if left := e.table.penalized(&r.debits[i], r.now); left > 0 && !r.debits[i].refused {
			r.refuse(max(r.Reason, Blocked), i, 0, left)
		}
	}
}

// penalize begins the penalties of the limits that refuse the request, and lengthens its retry time to their ends. It
// returns a channel that is closed when the store has the last of them; nil if none has begun. In an outage none
// begins, because the limits are smaller than they should be.
func (r *request) penalize(e *Engine) (stored <-chan struct{}) {
	if r.Reason != OverLimit && r.Reason != Blocked {
		return nil
	}
	degraded := r.Degraded || e.committer.degraded.Load()
	for i := range r.debits {
		d := &r.debits[i]
		if d.Penalty == nil || !d.refused || d.Waits || d.Quota.Reset == limiter.Never || !e.table.findRecord(d) {
			continue
		}
		record := d.record.client().record.Load() // nil if it was reset meanwhile
		if o := d.Penalty.offense(r.now); !degraded && record != nil && record.Begins(o) && !d.undecided(r.now) {
			noted := offense{d.record, o, make(chan struct{})}
			if e.committer.offenses.commit(noted) {
				e.committer.queue.wakeUp()
				stored = noted.stored
			}
		}
		if left := e.table.penalized(d, r.now); left > d.Quota.Reset {
			d.Quota = limiter.Quota{Reset: left}
			if left > r.Retry && r.Retry != limiter.Never {
				r.Debit, r.Retry = i, left
			}
		}
	}
	return stored
}

// undecidedFor is for how long a request that is under way may be one that doesn't count. With more, one slow request
// would save an attacker from all penalties and violations.
const undecidedFor = 10 * time.Second

// undecided reports whether the key of a refused debit may not be over its limit, because requests that came a moment
// ago may give their units back.
func (d *Debit) undecided(now int64) bool {
	if d.Counting != Held || !d.cell.exists() {
		return false
	}
	c := d.cell.lockPresent()
	defer c.Unlock()
	held := c.rare().holds
	return held != nil && now-held.latest < int64(undecidedFor)
}

// awaitStored waits until the store has a penalty, so that it outlives this process if the client knows of it.
func (r *request) awaitStored(ctx context.Context, e *Engine, stored <-chan struct{}) {
	start := time.Now()
	timeout := e.timers.start(e.opts.now().StoreTimeout - r.Waited)
	defer e.timers.stop(timeout)
	select {
	case <-stored:
	case <-ctx.Done():
	case <-timeout.C:
	}
	r.Waited += time.Since(start)
}
