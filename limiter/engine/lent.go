package engine

// lent is the leases of keys of which few units are left: others may be refused for the want of
// what this process holds. It has what each lease was when it was last looked at.
type lent map[*cell]lease

// fewShare is below what part of its limit few units of a key are left.
const fewShare = 4

// lendLocked notes the lease of a locked cell, if few units of its key are left.
func (l *leases) lendLocked(c *cell, limit *Limit) {
	if c.lease.units > 0 && l.conn.roundTrip() > 0 && c.leaseLocked().Left(&limit.Limit) < limit.Capacity()/fewShare {
		if l.lent == nil {
			l.lent = make(lent)
		}
		l.lent[c] = c.lease
	}
}

// takeBack gives back the leases of keys of which few units are left, and of which nobody has
// spent anything since the last time.
func (l *leases) takeBack() {
	for c, was := range l.lent {
		c.mu.Lock()
		switch {
		case c.dead, c.lease.units == 0, c.rare.claims() > 0: // what is granted then is noted again
			delete(l.lent, c)
		case c.lease == was:
			l.giveBackLocked(c)
			delete(l.lent, c)
		default:
			l.lent[c] = c.lease
		}
		c.mu.Unlock()
	}
}
