package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Reset names what is to be forgotten: what a limit has counted for a key, or all that a
// client has done.
type Reset struct {
	// Limit is the limit, or nil for a client.
	Limit *Limit
	// Key is the full text of what is counted or what the client is known by.
	Key string
	// Name is what the key is called in the store. It is used where Key is "".
	Name storage.Key
	// Found is set by [Engine.Reset]: it reports whether the store had something to forget.
	Found bool
}

// Errors of [Engine.Reset].
var (
	// ErrUnavailable says that the store can't be used at the moment. Nothing was reset.
	ErrUnavailable = errNotSent
	// ErrNoResets says that the store can't forget anything.
	ErrNoResets = errors.New("this store can't reset anything")
)

// Reset has the store forget, and then what this process holds in memory. The store tells
// other processes, which forget before they next claim anything, and within resetInterval. At
// most what was charged before and not spent yet is admitted on top of one more limit.
//
// An error that wraps [storage.ErrUnknownOutcome] leaves open whether the store has forgotten;
// to reset once more does no harm. If ctx ends first, the reset happens in the background.
func (e *Engine) Reset(ctx context.Context, resets []Reset) error {
	own := slices.Clone(resets) // the caller goes on with its own when ctx ends
	if err := e.committer.queue.order(ctx, func() error { return e.committer.eraser.reset(own) }); err != nil {
		return err
	}
	copy(resets, own)
	return nil
}

// eraser drops from memory, and from what is on its way, what the store has forgotten: because it was
// reset, or because its time was set back and another era has begun. Only the goroutine of the
// committer uses it.
//
// Invariant: nothing that was charged before is given back afterwards, or counted as in use.
type eraser struct {
	clock    *clock
	conn     *connection
	table    *table
	queue    *queue
	offenses *offenses
	writer   *writer
	degrade  func(error) // begins an outage
}

// reset resets what an operator wants to be forgotten.
func (er *eraser) reset(wanted []Reset) error {
	resets := make([]storage.Reset, len(wanted))
	for i := range resets {
		resets[i].ID = rand.Int64()
	}
	_, err := er.conn.inTerms(func(_ storage.Store, term *storage.Term) error {
		resetter, ok := ability[storage.Resetter](er.conn)
		if !ok {
			return ErrNoResets
		}
		for i := range resets {
			if err := er.nameReset(&resets[i], &wanted[i], term); err != nil {
				return err
			}
		}
		ctx, cancel := er.conn.call()
		defer cancel()
		return resetter.Reset(ctx, term, resets)
	})
	if err != nil {
		if !errors.Is(err, ErrNoResets) {
			er.degrade(err)
		}
		return err
	}
	er.writer.answers.Add(1)
	own := make(map[int64]string)
	for i, r := range resets {
		wanted[i].Found = r.Found
		own[r.Number] = wanted[i].Key
	}
	if err = er.takeResets(own); err != nil {
		er.degrade(err)
	}
	return err
}

// nameReset sets what is reset, by the names of the term.
func (er *eraser) nameReset(to *storage.Reset, of *Reset, term *storage.Term) error {
	id, retention := clientsID, clientRetention
	if of.Limit != nil {
		id, retention = of.Limit.ID, of.Limit.Retention()
	}
	to.Client, to.Limit = of.Limit == nil, id
	if of.Key == "" {
		to.Key, to.Former = of.Name, storage.Key{}
		return nil
	}
	name, err := er.conn.nameOf(id, of.Key, retention, term, term.Time.Now)
	to.Key, to.Former = name.Key, name.Former
	return err
}

// takeResets drops what the store has forgotten since it was asked last. own is the texts
// of keys that this process has reset, by the numbers of their resets.
func (er *eraser) takeResets(own map[int64]string) error {
	resetter, ok := ability[storage.Resetter](er.conn)
	if !ok {
		return nil
	}
	ctx, cancel := er.conn.call()
	defer cancel()
	known, err := resetter.Resets(ctx, er.conn.resets.Load())
	if err == nil {
		er.forgetResets(known, own)
	}
	return err
}

// forgetResets drops what the store has forgotten, see takeResets.
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

// forgetNamed forgets the keys that resets name, and reports whether all names could be
// compared.
func (er *eraser) forgetNamed(resets []storage.Reset) (ok bool) {
	if len(resets) == 0 {
		return true
	}
	names := namesIn(resets)
	ok = true
	er.each(func(c *cell) {
		if ok && names.mayHave(c) {
			var named bool
			if named, ok = names.have(c, er.conn.name); named {
				er.forgetCell(c)
			}
		}
	})
	return ok
}

// resetNames are the names in resets, to be compared with those of many cells.
type resetNames struct {
	keys  map[resetName]bool
	times map[storage.LimitID][]int64 // as of which each limit's are, ascending
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

// mayHave reports whether a cell is to be compared with the names.
func (n *resetNames) mayHave(c *cell) bool { return n.times[c.id] != nil && holdsAny(c) }

// have reports whether one of the names is the cell's. However many names there are, it asks
// for that of the cell once for each time in which it holds, since that is a hash.
func (n *resetNames) have(c *cell, nameOf nameFunc) (named, ok bool) {
	retention, times := retentionOf(c), n.times[c.id]
	for len(times) > 0 {
		name, err := nameOf(c.id, c.key(), retention, times[0])
		if err != nil {
			return false, false
		}
		if n.keys[resetName{c.id, name.Key}] || name.Former != (storage.Key{}) && n.keys[resetName{c.id, name.Former}] {
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

// forgetKey forgets what memory holds of a key, and what is on its way to the store.
func (er *eraser) forgetKey(id storage.LimitID, key string) {
	er.forgetCell(er.table.find(id, []byte(key)))
	er.eachOnItsWay(func(c *cell) {
		if c.id == id && string(c.text()) == key {
			er.forgetCell(c)
		}
	})
}

// each calls f with every cell, also with those that were evicted and whose lease the store
// has yet to get back.
func (er *eraser) each(f func(*cell)) {
	er.table.each(f)
	er.eachOnItsWay(f) // afterwards: what is evicted meanwhile is there
}

// eachOnItsWay calls f with the cells of the batch that is under way and of the open one.
func (er *eraser) eachOnItsWay(f func(*cell)) {
	for _, c := range slices.Concat(er.writer.current.cells(), er.queue.cells()) {
		f(c)
	}
}

// holdsAny reports whether a cell holds anything that a reset changes.
func holdsAny(c *cell) bool {
	if c.client() != nil {
		return c.client().last() != nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit != nil
}

// retentionOf returns how long the name of a cell's key must find what is kept.
func retentionOf(c *cell) (retention time.Duration) {
	if c.client() != nil {
		return clientRetention
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit.Retention()
}

// forgetCell forgets what memory holds of a cell, which may be nil, and what the batch that
// is under way and the open one would give back of it or charge.
func (er *eraser) forgetCell(c *cell) {
	if c == nil {
		return
	}
	if c.client() != nil {
		er.forgetClient(c)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks.clear()
	c.setLeaseLocked(limiter.Lease{})
	c.voidHoldsLocked()
	c.setLocalLocked(nil)
	c.known.period = 0
	er.writer.current.forget(c)
	er.queue.forget(c)
}

// forget has nothing given back of a cell, and nothing charged.
func (b *batch) forget(c *cell) {
	if b == nil {
		return
	}
	for _, en := range b.entries {
		if en.cell == c {
			en.give, en.charge, en.given, en.afterwards = limiter.Lease{}, limiter.Charge{}, 0, 0
		}
	}
}

// forgetClient forgets what a client has done, and what the store is to be told of that.
func (er *eraser) forgetClient(c *cell) {
	st := c.client()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.record.Store(nil)
	st.noted.Store(nil)
	st.reported.Store(0)
	st.attempts = nil
	st.pending -= er.offenses.drop(c)
}

// forgetAll forgets all that a reset may have concerned, where it isn't known what was
// reset. What memory has admitted and the store has not charged yet stays a debt.
func (er *eraser) forgetAll() {
	er.beginEra()
	if er.writer.current != nil {
		er.writer.current.beginEra(er.clock.now())
	}
	er.table.each(func(c *cell) {
		if c.client() != nil {
			er.forgetClient(c)
		}
	})
}
