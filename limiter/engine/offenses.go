package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// attempt counts the units that a limit has refused to a client in one window.
type attempt struct {
	id     storage.LimitID
	window int64
	units  int64
}

// maxAttempts bounds the limits that attempts are counted for at a time.
const maxAttempts = 16

// minViolationWindow is the least time between two violations of one limit. With less,
// a client that is a little too fast for a limit per second would be a criminal
// in half a minute.
const minViolationWindow = time.Minute

// recordViolations notes that clients were refused by limits, and punishes them where they
// tried for more than the whole limit of a client that stands well, once for
// each limit and window. It tells whether that changes what can be had. Nobody is
// to blame while the store can't be used, and limits are smaller because of that.
func (e *Engine) recordViolations(r *request) (changed bool) {
	if r.Degraded || e.degraded.Load() {
		return false
	}
	punished := false
	for i := range r.debits {
		debit := &r.debits[i]
		if debit.Client == nil || !debit.refused || debit.Client.record() == nil ||
			debit.Scaling.Points == 0 && debit.Scaling.Ban.After == 0 || !debit.Client.cell.client.violates(debit, r.now) {
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

// limitsChanged tells whether clients stand otherwise than they did when it was
// decided about their request.
func (r *request) limitsChanged() bool {
	if r.client.banned(r.now) != nil {
		return true
	}
	for i := range r.debits {
		debit := &r.debits[i]
		if debit.Client != nil && debit.Client.known() && debit.Scaling.limit(debit.client(), debit.parent(), r.now) != debit.Limit {
			return true
		}
	}
	return false
}

// violates counts a refused debit, and tells whether it is the one with which the
// client has tried for more than the whole limit in this window.
func (st *clientState) violates(d *Debit, now int64) bool {
	whole := d.Scaling.Levels[reputation.Low]
	window := now / int64(max(whole.Window(), minViolationWindow))
	spare := whole.Capacity() - d.Limit.Capacity()

	st.mu.Lock()
	defer st.mu.Unlock()
	a := st.attemptLocked(whole.ID)
	if a.window != window {
		a.window, a.units = window, 0
	}
	before := a.units
	a.units = min(a.units+d.Cost, whole.Capacity()) // it says no more beyond
	if before > spare || a.units <= spare {
		return false
	}
	a.units = whole.Capacity() // more than there is to spare, however the level falls
	return true
}

// attemptLocked returns the count for a limit, in the place of the oldest if
// there are too many.
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

// minBetween is the least time between two offenses of one client for one
// reason that are both noted, so that a flood makes no flood of writes.
const minBetween = time.Second

// Punish commits an offense of a client, at once in memory if it is known how
// the client stands, and soon in the store. It does not wait. A second offense
// for the same reason within a second is one with the first, unless it bans at
// once.
func (e *Engine) Punish(client *Client, o reputation.Offense) {
	e.ensureClient(client)
	if o.At == 0 {
		o.At = e.clock.now()
	}
	if e.commitOffense(offense{client.cell, o}) {
		e.queue.wakeUp()
		e.opts.Observer.Punished(o.Reason)
	}
}

// commitOffense notes an offense in memory and for the store, and tells whether
// it did.
func (e *Engine) commitOffense(o offense) (noted bool) {
	st := o.cell.client
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
	if record.Banned(o.At) || o.Ban.After != 1 && o.At-record.Last(o.Reason) < int64(minBetween) {
		return false
	}
	record.Commit(o.Offense)
	if known != nil {
		st.record.Store(&record)
	} else {
		st.noted.Store(&record) // what else it has done is not known
	}
	if e.offenses.add(o) {
		st.pending++
	}
	return true
}

// offense is one that the store is to be told of.
type offense struct {
	cell *cell
	reputation.Offense
}

// offenses waits for the committer. While the store can't be used it fills up,
// and then what comes is known to memory only.
type offenses struct {
	mu      sync.Mutex
	waiting []offense // guarded by mu
}

const (
	maxOffenses  = 1 << 14 // that wait
	offenseBatch = 256     // that are put to the store in one transaction
)

func (os *offenses) add(o offense) (added bool) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if len(os.waiting) >= maxOffenses {
		return false
	}
	os.waiting = append(os.waiting, o)
	return true
}

// first returns the first of those that wait, which stay.
func (os *offenses) first() []offense {
	os.mu.Lock()
	defer os.mu.Unlock()
	return slices.Clone(os.waiting[:min(len(os.waiting), offenseBatch)])
}

// remove takes the first n away.
func (os *offenses) remove(n int) {
	os.mu.Lock()
	defer os.mu.Unlock()
	os.waiting = slices.Delete(os.waiting, 0, n)
}

// punish tells the store of all offenses that wait.
func (e *Engine) punish() error {
	for {
		if more, err := e.punishSome(); err != nil || !more {
			return err
		}
	}
}

// punishSome tells the store of the first offenses that wait, in one transaction,
// and whether there may be more.
func (e *Engine) punishSome() (more bool, err error) {
	store, waiting := e.store.Load(), e.offenses.first()
	if len(waiting) == 0 {
		return false, nil
	}
	if store == nil {
		return false, errNoStore
	}
	records := make([]reputation.Record, len(waiting))
	_, err = e.inTerms(store, func(in storage.Store, term *storage.Term) error {
		waiting = e.offenses.first()[:len(records)] // they may have been moved with the time
		told := make([]storage.Offense, len(waiting))
		for i, o := range waiting {
			client, err := e.clientOf(o.cell, term, term.Time.Now)
			if err != nil {
				return err
			}
			told[i] = storage.Offense{Client: client, Offense: o.Offense}
		}
		return in.Punish(context.Background(), told, records)
	})
	if err != nil && !errors.Is(err, storage.ErrUnknownOutcome) {
		return false, err
	}
	e.answers.Add(1)
	e.offenses.remove(len(waiting))
	for i, o := range waiting {
		if err == nil {
			o.cell.client.learn(records[i], 1)
			if records[i].At == o.At && records[i].Banned(o.At) { // offenses of who is banned change nothing
				e.opts.Observer.Banned(o.Reason)
			}
		} else {
			o.cell.client.forget(1)
		}
	}
	return len(waiting) == offenseBatch, err
}
