package engine // operators

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Reset names counts to forget: those of a key of a limit, or the record of a client, or that of a key with a penalty.
type Reset struct {
	// Limit is the limit, or nil for a client.
	Limit *Limit
	// Penalty is that of the limit, or nil for its counts.
	Penalty *Penalty
	// Key is the full text of the key or of the client.
	Key string
	// Name is the name of the key in the store. It is used if Key is "".
	Name storage.Key
	// Lifts is for how long the record of a client remembers that its bans were lifted, see
	// [reputation.Lifted]. Zero leaves no record.
	Lifts time.Duration
	// Found is set by [Engine.Reset]: the store had something to forget.
	Found bool
}

// ErrUnavailable says that the store can't be used at the moment. Nothing has changed.
var ErrUnavailable = errNotSent

// Reset makes the store and then this process's memory forget. The store notifies other processes.
// They forget before their next claim, and within resetInterval. Units that were charged before and
// not spent yet may be admitted in addition to one more limit.
//
// After an error that wraps [storage.ErrUnknownOutcome] the store may have forgotten or not;
// another reset does no harm. If ctx ends first, the reset happens in the background.
func (e *Engine) Reset(ctx context.Context, resets []Reset) error {
	own := slices.Clone(resets) // the caller may change its own after ctx ends
	if err := e.committer.queue.run(ctx, func() error { return e.committer.eraser.reset(own) }); err != nil {
		return err
	}
	copy(resets, own)
	return nil
}

// eraser drops state from memory, the open batch and the current batch when the store has forgotten
// it: after a reset, or because the store's time was set back and a new era has begun. Only the
// committer's goroutine uses it.
//
// Invariant: units charged before are not given back afterwards, and don't count as in use.
type eraser struct {
	clock    *clock.Clock
	conn     *connection
	table    *cells
	queue    *queue
	offenses *offenses
	writer   *writer
	degrade  func(error) // begins an outage
}

// reset performs the resets of an operator.
func (er *eraser) reset(wanted []Reset) error {
	resets := make([]storage.Reset, len(wanted))
	for i := range resets {
		resets[i].ID = rand.Int64()
	}
	_, err := er.conn.inTerms(func(store storage.Store, term *storage.Term) error {
		for i := range resets {
			if err := er.nameReset(&resets[i], &wanted[i], term); err != nil {
				return err
			}
		}
		ctx, cancel := er.conn.call()
		defer cancel()
		return store.Reset(ctx, term, resets)
	})
	if err != nil {
		er.degrade(err)
		return err
	}
	er.writer.answers.Add(1)
	own := make(map[int64]string)
	for i, r := range resets {
		wanted[i].Found = r.Found
		own[r.Number] = wanted[i].Key
	}
	if err = er.takeResets(own); err == nil {
		err = er.noteLifts(resets, wanted)
	}
	if err != nil {
		er.degrade(err)
	}
	return err
}

// noteLifts notes in the store which of the resets have lifted bans.
func (er *eraser) noteLifts(resets []storage.Reset, wanted []Reset) error {
	var lifts []storage.Offense
	for i, w := range wanted {
		if w.Limit == nil && w.Lifts > 0 {
			lifts = append(lifts, storage.Offense{Client: storage.Client{Key: resets[i].Key, Former: resets[i].Former},
				Offense: liftOf(w.Lifts, 0)})
		}
	}
	if len(lifts) == 0 {
		return nil
	}
	_, err := er.conn.inTerms(func(store storage.Store, term *storage.Term) error {
		for i := range lifts {
			lifts[i].At = term.Time.Now
		}
		ctx, cancel := er.conn.call()
		defer cancel()
		return store.Punish(ctx, term, lifts, make([]reputation.Record, len(lifts)))
	})
	return err
}

// liftOf returns the entry of a record about lifted bans, which is remembered for a while.
func liftOf(lasts time.Duration, at int64) reputation.Offense {
	return reputation.Offense{Violation: reputation.Violation{At: at, Reason: reputation.Lifted},
		Ban: reputation.Ban{Within: lasts}}
}

// Lift ends the ban of a client because it was lifted elsewhere, at once in memory and soon in the
// store. Its record remembers that for a while.
func (e *Engine) Lift(client *Client, lasts time.Duration) {
	e.Punish(client, liftOf(lasts, e.clock.Now()))
}

// nameReset sets the limit and key of a reset, with the names of the term.
func (er *eraser) nameReset(to *storage.Reset, from *Reset, term *storage.Term) error {
	id, retention := namesOf(from.Limit)
	to.Client, to.Limit = from.Limit == nil || from.Penalty != nil, id
	if from.Penalty != nil {
		id, to.Limit = from.Penalty.Scope, ^from.Penalty.Scope
	}
	if from.Key == "" {
		to.Key, to.Former = from.Name, storage.Key{}
		return nil
	}
	name, err := er.conn.nameOf(id, from.Key, retention, term, term.Time.Now)
	to.Key, to.Former = name.Key, name.Former
	return err
}

// takeResets drops the state that the store has forgotten since the last call. own maps the numbers
// of this process's resets to the texts of their keys.
func (er *eraser) takeResets(own map[int64]string) error {
	store := er.conn.store.Load()
	if store == nil {
		return nil
	}
	ctx, cancel := er.conn.call()
	defer cancel()
	known, err := store.Resets(ctx, er.conn.resets.Load())
	if err == nil {
		er.forgetResets(known, own)
	}
	return err
}

// forgetResets drops the state that the store has forgotten, see takeResets.
func (er *eraser) forgetResets(known storage.Resets, own map[int64]string) {
	var named []storage.Reset
	for _, r := range known.List {
		if key := own[r.Number]; key != "" {
			er.forgetKey(r.Limit, key)
		} else {
			named = append(named, r)
		}
	}
	if known.Lost || !er.forgetNamed(named) {
		er.forgetAll()
	}
	er.conn.resets.Store(known.Newest)
}

// forgetNamed forgets the keys that the resets name, and reports whether all names could be
// compared.
func (er *eraser) forgetNamed(resets []storage.Reset) (ok bool) {
	if len(resets) == 0 {
		return true
	}
	names := namesIn(resets)
	ok = true
	er.each(func(c cell) {
		if ok && names.mayHave(c) {
			var named bool
			if named, ok = names.have(c, er.conn.name); named {
				er.forgetCell(c)
			}
		}
	})
	return ok
}

// resetNames are the names in resets, for comparison with those of many cells.
type resetNames struct {
	keys  map[resetName]bool
	times map[storage.LimitID][]int64 // the times of each limit's resets, ascending
}

type resetName struct {
	id  storage.LimitID
	key storage.Key
}

func namesIn(resets []storage.Reset) resetNames {
	names := resetNames{make(map[resetName]bool), make(map[storage.LimitID][]int64)}
	for _, r := range resets {
		names.keys[resetName{r.Limit, r.Key}] = true
		if r.Former != (storage.Key{}) {
			names.keys[resetName{r.Limit, r.Former}] = true
		}
		names.times[r.Limit] = append(names.times[r.Limit], r.At)
	}
	for _, times := range names.times {
		slices.Sort(times)
	}
	return names
}

// mayHave reports whether a cell must be compared with the names.
func (n *resetNames) mayHave(c cell) bool { return n.times[c.ID] != nil && holdsAny(c) }

// have reports whether one of the names belongs to the cell. The cell's own name is a hash, so have
// computes it only once for each period in which it holds, regardless of the number of names.
func (n *resetNames) have(c cell, nameOf nameFunc) (named, ok bool) {
	id, retention := scopeOf(c)
	times := n.times[c.ID]
	for len(times) > 0 {
		name, err := nameOf(id, c.key(), retention, times[0])
		if err != nil {
			return false, false
		}
		if n.keys[resetName{c.ID, name.Key}] || name.Former != (storage.Key{}) && n.keys[resetName{c.ID, name.Former}] {
			return true, true
		}
		if name.Until == 0 {
			break
		}
		later, _ := slices.BinarySearch(times, name.Until)
		times = times[max(later, 1):]
	}
	return false, true
}

// forgetKey forgets a key in memory and in the batches.
func (er *eraser) forgetKey(id storage.LimitID, key string) {
	er.forgetCell(er.table.find(id, []byte(key)))
	er.eachOnItsWay(func(c cell) {
		if c.ID == id && string(c.text()) == key {
			er.forgetCell(c)
		}
	})
}

// each calls f with every cell, including evicted ones whose lease is still on its way to the
// store.
func (er *eraser) each(f func(cell)) {
	er.table.each(f)
	er.eachOnItsWay(f) // after the table: cells evicted meanwhile are there
}

// eachOnItsWay calls f with the cells of the current batch and of the open one.
func (er *eraser) eachOnItsWay(f func(cell)) {
	for _, c := range slices.Concat(er.writer.current.cells(), er.queue.cells()) {
		f(c)
	}
}

// holdsAny reports whether a cell has any state that a reset changes.
func holdsAny(c cell) bool {
	if c.client() != nil {
		return c.client().last() != nil
	}
	c = c.lockPresent()
	defer c.Unlock()
	return c.limit() != nil
}

// scopeOf returns the scope of the name of a cell's key, and how long the name must find its rows, which is 0 if the
// cell was evicted.
func scopeOf(c cell) (id storage.LimitID, retention time.Duration) {
	if c.client() != nil {
		return c.recordScope()
	}
	c = c.lockPresent()
	defer c.Unlock()
	if c.limit() == nil {
		return c.ID, 0
	}
	return c.ID, c.limit().Retention()
}

// forgetCell forgets the state of a cell, which may be nil, and the units that the current batch
// and the open one would give back or charge for it.
func (er *eraser) forgetCell(c cell) {
	if !c.exists() {
		return
	}
	if c.client() != nil {
		er.forgetClient(c)
		return
	}
	c = c.lockPresent()
	defer c.Unlock()
	c.setBlocksLocked(nil)
	c.setLeaseLocked(limiter.Lease{})
	c.voidHoldsLocked()
	c.setLocalLocked(nil)
	c.known.period = 0
	er.writer.current.forget(c)
	er.queue.forget(c)
}

// forget removes a cell's leases and charges from the batch.
func (b *batch) forget(c cell) {
	if b == nil {
		return
	}
	for _, en := range b.entries {
		if en.cell.isSame(c) {
			en.give, en.charge, en.given, en.afterwards, en.usage = limiter.Lease{}, limiter.Charge{}, 0, 0, usage{}
		}
	}
}

// forgetClient forgets a client's record and the offenses that wait to be recorded.
func (er *eraser) forgetClient(c cell) {
	st := c.client()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.record.Store(nil)
	st.noted.Store(nil)
	st.reported.Store(0)
	st.attempts = nil
	st.pending -= er.offenses.drop(c)
}

// forgetAll forgets everything that a reset may have concerned, if the reset keys are unknown.
// Units that memory admitted and the store has not charged yet stay a debt.
func (er *eraser) forgetAll() {
	er.beginEra()
	if er.writer.current != nil {
		er.writer.current.beginEra(er.clock.Now())
	}
	er.table.each(func(c cell) {
		if c.client() != nil {
			er.forgetClient(c)
		}
	})
}
