package engine

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// The time of decisions is that of the store, which takes it inside of its
// transactions. What a call is made of depends on it, the names of keys above all,
// so each call has a term in which it may take effect.

// maxTerms is how often a call is made anew because the time was not within its
// term. Once is enough, unless time goes by meanwhile.
const maxTerms = 8

// term returns the term of a call that is made as of now, and sets the stamp.
func (e *Engine) term(at *stamp) storage.Term {
	at.source = e.opts.Clock
	at.Read()
	known := e.clock.line.Load()
	return storage.Term{Clock: at, Shift: known.Shift, Era: known.Era}
}

// within returns the store as it is for calls of a term. A store that keeps no time
// goes by what the engine keeps for it; then the term has its time already.
func (e *Engine) within(store *opened, term *storage.Term) storage.Store {
	if keeper, ok := store.Store.(storage.Timekeeper); ok {
		return keeper.Within(term)
	}
	term.Time = e.tell(term.Clock)
	term.Shift, term.Era = term.Time.Shift, term.Time.Era
	return store.Store
}

// tell returns the time of a store that keeps none.
func (e *Engine) tell(from storage.Clock) storage.Time {
	e.keeping.mu.Lock()
	defer e.keeping.mu.Unlock()
	was := &e.keeping.record
	r := from.Read()
	told, must := was.Tell(r, *was)
	if must || was.Due(told, r) {
		told = told.Measured(r)
		*was = told
	}
	return told.Time
}

// askTime has the engine go by the time of a store that was just opened.
func (e *Engine) askTime(store storage.Store) error {
	e.term(&e.stamp)
	keeper, ok := store.(storage.Timekeeper)
	if !ok {
		e.follow(e.tell(&e.stamp))
		return nil
	}
	t, err := keeper.Time(&e.stamp, e.clock.now())
	if err == nil {
		e.follow(t)
	}
	return err
}

// beginAsking has the committer ask for the time, so that the engine learns in time
// that it was set or slewed, also where nobody claims anything.
func (e *Engine) beginAsking() {
	e.asking.Store(true)
	e.queue.wakeUp()
}

// askTimeAgain asks for the time if it is to be asked for. If that fails, the next
// claim does as well.
func (e *Engine) askTimeAgain() {
	if !e.asking.Swap(false) {
		return
	}
	if store := e.store.Load(); store != nil && !e.degraded.Load() {
		_ = e.askTime(store.Store)
	}
}

// inTerms calls f, which makes calls within a term, until the term holds: names are
// made for the time that the store said then. It goes by what the store says. It is
// for the committer.
func (e *Engine) inTerms(store *opened, f func(in storage.Store, term *storage.Term) error) (t storage.Time, err error) {
	now := e.clock.now()
	for range maxTerms {
		term := e.term(&e.stamp)
		in := e.within(store, &term)
		if _, ok := store.Store.(storage.Timekeeper); !ok {
			e.follow(term.Time)
			return term.Time, f(in, &term)
		}
		term.Time = storage.Time{Now: now, Shift: term.Shift, Era: term.Era}
		if err = f(in, &term); err != nil && !errors.Is(err, storage.ErrTerm) {
			return t, err
		}
		t = term.Time
		e.follow(t)
		if err == nil {
			return t, nil
		}
		now = t.Now
	}
	return t, err
}

// nameOf names what a cell is about, as of now, and makes the term of the call no
// longer than the name holds.
func (e *Engine) nameOf(c *cell, remembered time.Duration, term *storage.Term, now int64) (Name, error) {
	n, err := e.opts.Name(c.id, c.key, remembered, now-term.Shift)
	if err != nil || n.Until == 0 {
		return n, err
	}
	term.From = max(term.From, n.From+term.Shift)
	if until := n.Until + term.Shift; term.Until == 0 || until < term.Until {
		term.Until = until
	}
	return n, nil
}

// Now returns the time that the engine goes by, in nanoseconds since the Unix epoch:
// the store's, as far as it is known.
func (e *Engine) Now() int64 { return e.clock.now() }

// Lasting returns the same time as if it had never been set, where that was
// necessary because the wall clock was wrong. What must last goes by it. It reports
// whether a store has told the time yet, and not only the wall clock.
func (e *Engine) Lasting() (now int64, told bool) { return e.clock.lasting() }

// keeping is the time of a store that keeps none.
type keeping struct {
	mu     sync.Mutex
	record storage.TimeRecord // guarded by mu
}

// follow goes by the time that the store said at the stamp.
func (e *Engine) follow(t storage.Time) {
	by, back := e.clock.follow(t, &e.stamp)
	if by != 0 {
		e.moveClients(by)
	}
	if back {
		e.beginEra()
	}
}

// beginEra drops what is known of an era before this one: the store has forgotten
// it, and what memory still held would never end.
func (e *Engine) beginEra() {
	now := e.clock.now()
	e.table.each(func(c *cell) {
		c.mu.Lock()
		c.beginEraLocked(now)
		c.mu.Unlock()
	})
	e.queue.beginEra(now)
}

func (c *cell) beginEraLocked(now int64) {
	c.block.Store(nil)
	c.lease = limiter.Lease{}
	if c.local == nil {
		return
	}
	owed := c.local.debts
	c.local = newLocal(c.limit, c.lease)
	for _, charge := range owed {
		if c.limit.Slots() > 0 {
			charge.At = min(charge.At, c.limit.Slot(now))
		}
		c.limit.Claim(&c.local.state, limiter.Claim{Now: now, Charge: charge})
		c.local.debts = append(c.local.debts, charge)
	}
}

// beginEra has nothing given back that was charged in an era before.
func (q *queue) beginEra(now int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.batch != nil {
		q.batch.beginEra(now)
	}
}

func (b *batch) beginEra(now int64) {
	for _, en := range b.entries {
		en.give = limiter.Lease{}
		if en.limit.Slots() > 0 {
			en.charge.At = min(en.charge.At, en.limit.Slot(now))
		}
	}
}

// moveClients moves what is known of clients with a time that was set, so that a ban
// lasts as long as it would have.
func (e *Engine) moveClients(by int64) {
	e.table.each(func(c *cell) {
		if c.client != nil {
			c.client.move(by)
		}
	})
	e.offenses.move(by)
}

func (st *clientState) move(by int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, record := range []*atomic.Pointer[reputation.Record]{&st.record, &st.noted} {
		if known := record.Load(); known != nil {
			moved := *known
			moved.Move(by)
			record.Store(&moved)
		}
	}
	if told := st.told.Load(); told != 0 {
		st.told.CompareAndSwap(told, told+by)
	}
}

func (os *offenses) move(by int64) {
	os.mu.Lock()
	defer os.mu.Unlock()
	for i := range os.waiting {
		os.waiting[i].At += by
	}
}
