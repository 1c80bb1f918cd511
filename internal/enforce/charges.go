package enforce

import "github.com/caddy-tally/caddy-tally/internal/engine"

// Charges are the debits of a request, one from each limit.
type Charges struct {
	Debits   []engine.Debit
	Policies []*Policy // the limit of each debit; a client's own shadow limit precedes its shared ones
}

func (c *Charges) reset() { c.Debits, c.Policies = c.Debits[:0], c.Policies[:0] }

// add adds a debit from a limit. The caller sets the fields that only some debits have. The result
// is valid until the next call of add.
func (c *Charges) add(p *Policy, key []byte, cost int64) *engine.Debit {
	c.Policies = append(c.Policies, p)
	c.Debits = append(c.Debits, engine.Debit{})
	d := &c.Debits[len(c.Debits)-1]
	d.Limit, d.Key, d.Cost, d.Counting = &p.Limit, key, cost, p.Zone.Counting
	d.Penalty = p.Penalty
	return d
}

// end returns the index after the debits that belong to the limit with the nth debit: its own, and
// those of the limits that share it.
func (c *Charges) end(nth int) int {
	to := nth + 1
	for to < len(c.Policies) && c.Policies[to].Of != nil {
		to++
	}
	return to
}
