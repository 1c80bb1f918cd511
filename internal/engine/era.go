package engine // store

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// beginAsking makes the committer ask for the time, so that the engine soon notices that it was set
// or slewed, even if there are no claims.
func (cm *committer) beginAsking() {
	cm.asking.Store(true)
	cm.queue.wakeUp()
}

// askTimeAgain asks for the time after beginAsking. If that fails, so does the next claim.
func (cm *committer) askTimeAgain() {
	if !cm.asking.Swap(false) {
		return
	}
	if store := cm.conn.store.Load(); store != nil && !cm.degraded.Load() {
		_ = cm.conn.askTime(store.Store)
	}
}

// timeSet moves the records of clients by the same amount as the store's time, and begins an era if
// the time was set back.
func (er *eraser) timeSet(by int64, back bool) {
	if by != 0 {
		er.moveClients(by)
	}
	if back {
		er.beginEra()
	}
}

// beginEra drops the state of earlier eras: the store has forgotten it, and without this it would
// never expire in memory.
func (er *eraser) beginEra() {
	now := er.clock.Now()
	er.table.each(func(c cell) {
		c = c.lockPresent()
		c.beginEraLocked(now)
		c.Unlock()
	})
	er.queue.beginEra(now)
}

func (c cell) beginEraLocked(now int64) {
	c.setBlocksLocked(nil)
	c.setLeaseLocked(limiter.Lease{})
	c.voidHoldsLocked()
	c.known.period = 0
	was := c.rare().local
	if was == nil {
		return
	}
	local := newLocal(c.limit(), limiter.Lease{})
	c.setLocalLocked(local)
	for _, charge := range was.debts {
		charge = charge.NotLater(&c.limit().Rate, now)
		c.limit().Claim(&local.state, limiter.Claim{Now: now, Charge: charge})
		local.debts = append(local.debts, charge)
	}
}

// beginEra drops leases of earlier eras from the open batch, and moves later charges to now.
func (q *queue) beginEra(now int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.batch != nil {
		q.batch.beginEra(now)
	}
}

func (b *batch) beginEra(now int64) {
	for _, en := range b.entries {
		en.give, en.usage = limiter.Lease{}, usage{}
		en.charge = en.charge.NotLater(&en.limit.Rate, now)
	}
}

// moveClients moves the records of clients by the same amount as the time, so that a ban keeps its
// duration.
func (er *eraser) moveClients(by int64) {
	er.table.each(func(c cell) {
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
