package engine

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// beginAsking has the committer ask for the time, so that the engine soon learns that it
// was set or slewed, also where nobody claims anything.
func (m *committer) beginAsking() {
	m.asking.Store(true)
	m.queue.wakeUp()
}

// askTimeAgain asks for the time if it is to be asked for. If that fails, the next
// claim does as well.
func (m *committer) askTimeAgain() {
	if !m.asking.Swap(false) {
		return
	}
	if store := m.conn.store.Load(); store != nil && !m.degraded.Load() {
		_ = m.conn.askTime(store.Store)
	}
}

// timeSet moves what is known of clients with a time that was set by so much, and begins
// an era if it was set back.
func (er *eraser) timeSet(by int64, back bool) {
	if by != 0 {
		er.moveClients(by)
	}
	if back {
		er.beginEra()
	}
}

// beginEra drops what is known of an era before this one: the store has forgotten
// it, and what memory still held would never end.
func (er *eraser) beginEra() {
	now := er.clock.now()
	er.table.each(func(c *cell) {
		c.mu.Lock()
		c.beginEraLocked(now)
		c.mu.Unlock()
	})
	er.queue.beginEra(now)
}

func (c *cell) beginEraLocked(now int64) {
	c.blocks.clear()
	c.setLeaseLocked(limiter.Lease{})
	c.voidHoldsLocked()
	c.known.period = 0
	was := c.rare.admitted()
	if was == nil {
		return
	}
	local := newLocal(c.limit, limiter.Lease{})
	c.setLocalLocked(local)
	for _, charge := range was.debts {
		charge = charge.NotLater(&c.limit.Limit, now)
		c.limit.Claim(&local.state, limiter.Claim{Now: now, Charge: charge})
		local.debts = append(local.debts, charge)
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
		en.charge = en.charge.NotLater(&en.limit.Limit, now)
	}
}

// moveClients moves what is known of clients with a time that was set, so that a ban
// lasts as long as it would have.
func (er *eraser) moveClients(by int64) {
	er.table.each(func(c *cell) {
		if c.client() != nil {
			c.client().move(by)
		}
	})
	er.offenses.move(by)
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
	if until := st.reported.Load(); until != 0 {
		st.reported.CompareAndSwap(until, until+by)
	}
}

func (os *offenses) move(by int64) {
	os.mu.Lock()
	defer os.mu.Unlock()
	for i := range os.waiting {
		os.waiting[i].At += by
	}
}
