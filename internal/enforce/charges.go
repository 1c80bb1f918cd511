package enforce

import "github.com/caddy-tally/caddy-tally/limiter/engine"

// Charges is what a request takes from limits: one debit from each.
type Charges struct {
	Debits   []engine.Debit
	Policies []*Policy // the limit of each debit; of shadow limits, those that clients share stand behind their own
}

func (c *Charges) reset() { c.Debits, c.Policies = c.Debits[:0], c.Policies[:0] }

// add adds a debit from a limit, which still has the fields to be set that only some debits have. It
// is valid until the next one is added.
func (c *Charges) add(p *Policy, key []byte, cost int64) *engine.Debit {
	c.Policies = append(c.Policies, p)
	c.Debits = append(c.Debits, engine.Debit{})
	d := &c.Debits[len(c.Debits)-1]
	d.Limit, d.Key, d.Cost, d.Counting = &p.Limit, key, cost, p.Zone.Counting
	return d
}

// End returns where the debits end that belong to the limit whose own debit is the nth: behind those
// of what clients share of it.
func (c *Charges) End(nth int) int {
	to := nth + 1
	for to < len(c.Policies) && c.Policies[to].Of != nil {
		to++
	}
	return to
}
