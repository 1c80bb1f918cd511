package engine

// lent holds the leases of keys with few units left: other processes may be refused for lack of the
// units of this process. Its values are the leases as of the last check, zero before that.
type lent map[cell]lease

// fewShare defines few units: less than 1/fewShare of the limit.
const fewShare = 4

// lendLocked notes the lease of a locked cell if few units of its key are left.
func (l *leases) lendLocked(c cell, limit *Limit) {
	if c.lease.units > 0 && l.conn.roundTrip() > 0 && c.leaseLocked().Left(&limit.Rate) < limit.Capacity()/fewShare {
		if l.lent == nil {
			l.lent = make(lent)
		}
		l.lent[c] = lease{} // until the next check
	}
}

// takeBack gives back the noted leases that were unused since the last check.
func (l *leases) takeBack() {
	noted := l.lent
	l.lent = make(lent, len(noted)/2)
	for c, was := range noted {
		c = c.lockPresent()
		switch {
		case c.dead, c.lease.units == 0, c.rare().claims() > 0: // a claim's grant is noted again
		case c.lease == was:
			l.giveBackLocked(c)
		default:
			l.lent[c] = c.lease
		}
		c.mu.Unlock()
	}
}
