package engine // leases

import "github.com/caddy-tally/caddy-tally/limiter"

// postponed is a lease that is given back when the store can be used again. Until then it counts as
// held by a request: its cell is not evicted, and the lease is dropped if the store forgets the
// charge.
type postponed struct {
	cell  cell
	limit *Limit
	lease limiter.Lease
	mark  uint32
}

// postponeLocked schedules a lease to be given back later. Its cell must be locked.
func (q *queue) postponeLocked(c cell, limit *Limit, lease limiter.Lease) {
	p := postponed{cell: c, limit: limit, lease: lease}
	c.changeRareLocked(func(r *busy) { p.mark = r.hold() })
	q.mu.Lock()
	defer q.mu.Unlock()
	q.later = append(q.later, p)
}

// resume calls give with the postponed leases that are still charged in the store. Their cells are
// locked during the calls.
func (q *queue) resume(give func(cell, *Limit, limiter.Lease)) {
	q.mu.Lock()
	later := q.later
	q.later = nil
	q.mu.Unlock()
	for _, p := range later {
		p.cell.Lock()
		valid := p.mark == p.cell.rare().holds.mark
		p.cell.endHoldLocked()
		if valid {
			give(p.cell, p.limit, p.lease)
		}
		p.cell.Unlock()
	}
}

// resume gives back the postponed leases, if the store can be used.
func (l *leases) resume() {
	if l.degraded.Load() {
		return
	}
	l.queue.resume(func(c cell, limit *Limit, lease limiter.Lease) {
		l.giveLeaseLocked(c, limit, lease, l.clock.Now())
	})
}
