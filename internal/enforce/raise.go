package enforce

import (
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/rules"
)

// raised is a limit as a raise of operators makes it.
type raised struct {
	engine.Raise
	limit   *engine.Limit
	scaling *engine.Scaling // nil if the limit has none
}

// raise raises the limits of all debits from the nth on, as operators' rules for the request say.
func (e *Evaluation) raise(c *Charges, nth int) error {
	stated := e.Handler.Config.Stated.Now()
	for i := nth; i < len(c.Debits); i++ {
		p := c.Policies[i]
		for _, set := range stated.Raises(p.Zone.Name, p.Name) {
			if set == nil {
				continue
			}
			s := ruleSearch{Evaluation: e, set: set, now: time.Now()}
			by, err := s.find()
			if err != nil {
				return err
			}
			if by != nil {
				p.Raise(&c.Debits[i], by)
				break
			}
		}
	}
	return nil
}

// Raise raises the limit of a debit, and what the records of clients make of it.
func (p *Policy) Raise(d *engine.Debit, by *rules.Rule) {
	r := p.raised.Load()
	if r == nil || r.Percent != by.Percent {
		r = &raised{Raise: engine.Raise{Percent: by.Percent, Limit: &p.Limit, Scaling: p.Scaling},
			limit: p.Limit.Raise(by.Percent)}
		if p.Scaling != nil {
			r.scaling = p.Scaling.Raise(by.Percent)
		}
		p.raised.Store(r) // most sites have few factors
	}
	d.Limit, d.Raise = r.limit, &r.Raise
	if by.Percent > 100 {
		d.Penalty = nil // whom an operator gives more isn't refused for longer (decision 183)
	}
	if d.Scaling != nil {
		d.Scaling = r.scaling
	}
	if !by.Until.IsZero() {
		d.RaisedUntil = by.Until.UnixNano()
	}
}
