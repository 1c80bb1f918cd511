package tally

import "github.com/caddy-tally/caddy-tally/limiter/engine"

// shadows is what a request takes from shadow limits.
type shadows struct {
	debits   []engine.Debit
	policies []*policy // the limit of each debit; those that clients share stand behind their own
}

func (s *shadows) reset() { s.debits, s.policies = s.debits[:0], s.policies[:0] }

// add adds a debit, which is valid until the next one is added.
func (s *shadows) add(p *policy, key []byte, cost int64) *engine.Debit {
	s.policies = append(s.policies, p)
	s.debits = append(s.debits, engine.Debit{})
	d := &s.debits[len(s.debits)-1]
	d.Limit, d.Key, d.Cost, d.Counting = &p.Limit, key, cost, p.zone.counting
	return d
}

// end returns where the debits end that the shadow limit takes whose debits begin at from.
func (s *shadows) end(from int) int {
	to := from + 1
	for to < len(s.policies) && s.policies[to].of != nil {
		to++
	}
	return to
}
