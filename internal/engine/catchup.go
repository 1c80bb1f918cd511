package engine // outage

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// A reopened store may turn out to be another one: its database was removed, replaced, or damaged
// and set aside. Then memory replays its known usage: it charges this usage to the new store, as
// far as the new store lacks it. Every process on the store does the same.

// catchUp charges the debts of memory to the store. If the store is another one, it also charges
// the known usage.
func (cm *committer) catchUp() error {
	store := cm.conn.store.Load().Store
	add := (*batch).chargeLocked
	another := cm.charged != nil && !store.Continues(cm.charged)
	if another {
		now := cm.clock.Now()
		add = func(b *batch, c cell) {
			b.replayLocked(c, now)
			b.chargeLocked(c)
		}
	}
	if err := cm.writer.flush(add); err != nil {
		return err
	}
	if another {
		if err := cm.replayIDs(cm.clock.Now()); err != nil {
			return err
		}
		cm.losses.count(cm.conn.network(), cm.charged)
	}
	cm.charged = store
	return nil
}

// losses counts stores on a network that don't continue the previous store.
type losses struct {
	lost      atomic.Int64 // times that the store had lost writes
	unsettled atomic.Int64 // times that the outcome of calls stayed unknown
}

// count counts a store that doesn't continue the previously charged one.
func (l *losses) count(store storage.Network, charged storage.Store) {
	switch {
	case store == nil:
	case store.Lacks(charged):
		l.lost.Add(1)
	default:
		l.unsettled.Add(1)
	}
}

// replayLocked adds the known usage of a key to a batch. The key's lease was charged to a store
// that is gone, so its units are free.
func (b *batch) replayLocked(c cell, now int64) {
	if c.limit() == nil {
		return // nothing was ever claimed
	}
	c.takeLeaseLocked()
	c.voidHoldsLocked()
	if known := knownOf(c, now); known.Units > 0 {
		b.addChargeLocked(c, c.limit(), known)
	}
}

// knownOf returns the usage of a locked cell's key that memory knows, without the key's lease and
// its debts.
func knownOf(c cell, now int64) limiter.Charge {
	state := newLocal(c.limit(), c.leaseLocked()).state
	known := usedOf(c.limit(), &state, now)
	if local := c.rare().local; local != nil {
		more := usedOf(c.limit(), &local.state, now)
		for _, debt := range local.debts {
			if debt.Counts(&c.limit().Rate, now) {
				more.Units -= debt.Units
			}
		}
		if more.Units > known.Units {
			known = more
		}
	}
	known.Floor = true
	return known
}

// usedOf returns the usage in a state, as charged in its last slot, but not after now.
func usedOf(limit *Limit, s *limiter.State, now int64) (used limiter.Charge) {
	g := limit.Claim(s, limiter.Claim{Now: now})
	used.Units = g.Lease.InUseAt(&limit.Rate, now)
	if last := len(s.Slots) - 1; last >= 0 {
		used.At = min(s.Slots[last].Index, limit.Slot(now))
	}
	return used
}
