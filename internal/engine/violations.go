package engine // decision

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// attempt counts the units of one limit that a client was refused in one window.
type attempt struct {
	id     storage.LimitID
	window int64
	units  int64
}

// maxAttempts is the maximum number of limits with attempts at a time.
const maxAttempts = 16

// minViolationWindow is the least time between two violations of one limit. With less, a client
// that is a little too fast for a limit per second would reach the worst level in half a minute.
const minViolationWindow = time.Minute

// recordViolations records the refusals of clients by limits. It punishes a client whose attempts
// exceed the whole limit of a client of the best level, once for each limit and window. It reports
// whether that changes the decision. While the store can't be used it records nothing, because the
// limits are smaller than they should be.
func (r *request) recordViolations(e *Engine) (changed bool) {
	if r.Degraded || e.committer.degraded.Load() {
		return false
	}
	punished := false
	for i := range r.debits {
		debit := &r.debits[i]
		if debit.Client == nil || !debit.refused || debit.Waits || debit.Client.record() == nil ||
			debit.Scaling.Points == 0 && debit.Scaling.Ban.After == 0 || debit.undecided(r.now) ||
			!debit.Client.cell.client().violates(debit, r.now) {
			continue
		}
		punished = true
		e.Punish(debit.Client, reputation.Offense{
			Violation: reputation.Violation{At: r.now, Zone: debit.Scaling.Zone, Reason: reputation.OverLimit},
			Points:    debit.Scaling.Points,
			Ban:       debit.Scaling.Ban,
		})
	}
	return punished && r.limitsChanged()
}

// limitsChanged reports whether a client was banned, or its level changed, after its request was
// decided.
func (r *request) limitsChanged() bool {
	if r.client.banned(r.now) != nil {
		return true
	}
	for i := range r.debits {
		debit := &r.debits[i]
		if debit.Client != nil && debit.Client.known() &&
			*debit.Scaling.limit(debit.client(), debit.parent(), r.now) != *debit.Whole() {
			return true
		}
	}
	return false
}

// violates counts a refused debit, and reports whether with it the client's attempts exceed the
// whole limit in this window.
func (st *clientState) violates(d *Debit, now int64) bool {
	whole := d.Scaling.Levels[reputation.Low]
	window := now / int64(max(whole.Window(), minViolationWindow))
	spare := whole.Capacity() - d.Whole().Capacity()

	st.mu.Lock()
	defer st.mu.Unlock()
	a := st.attemptLocked(whole.ID)
	if a.window != window {
		a.window, a.units = window, 0
	}
	before := a.units
	a.units = min(a.units+d.Cost, whole.Capacity()) // beyond that it doesn't matter
	if before > spare || a.units <= spare {
		return false
	}
	a.units = whole.Capacity() // above spare, even if the level falls
	return true
}

// attemptLocked returns the count for a limit. It replaces the oldest if there are too many.
func (st *clientState) attemptLocked(id storage.LimitID) *attempt {
	oldest := 0
	for i := range st.attempts {
		if st.attempts[i].id == id {
			return &st.attempts[i]
		}
		if st.attempts[i].window < st.attempts[oldest].window {
			oldest = i
		}
	}
	if len(st.attempts) < maxAttempts {
		oldest = len(st.attempts)
		st.attempts = append(st.attempts, attempt{})
	}
	st.attempts[oldest] = attempt{id: id, window: -1}
	return &st.attempts[oldest]
}

// minBetween is the least time between two recorded offenses of one client for one reason, so that
// a flood of requests makes no flood of writes.
const minBetween = time.Second

// Punish records an offense of a client, at once in memory and soon in the store. It does not wait.
// A second offense for the same reason within a second counts as one with the first, unless it bans
// at once.
func (e *Engine) Punish(client *Client, o reputation.Offense) {
	e.table.ensureClient(client)
	if o.At == 0 {
		o.At = e.clock.Now()
	}
	if e.committer.offenses.commit(offense{cell: client.cell, Offense: o}) {
		e.committer.queue.wakeUp()
		e.opts.Observer.Punished(o.Reason)
	}
}

// commit notes an offense in memory and for the store, and reports whether it did.
func (os *offenses) commit(o offense) (noted bool) {
	st := o.cell.client()
	st.mu.Lock()
	defer st.mu.Unlock()
	var record reputation.Record
	known, unread := st.record.Load(), st.noted.Load()
	switch {
	case known != nil:
		record = *known
	case unread != nil:
		record = *unread
	}
	if o.Reason != reputation.Lifted &&
		(record.Banned(o.At) || o.Ban.After != 1 && o.At-record.Last(o.Reason) < int64(minBetween)) {
		return false
	}
	if changed := record.Commit(o.Offense); !changed && o.Reason == reputation.Blocked {
		return false
	}
	if known != nil {
		st.record.Store(&record)
	} else {
		st.noted.Store(&record) // the rest of its record is unknown
	}
	if os.add(o) {
		st.pending++
	} else {
		o.end()
	}
	return true
}
