package enforce

import (
	"fmt"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/settle"
)

// This file hands a request's pending debits to package settle.

// Pending returns the request's pending debits, or nil if there are none. Settling them corrects
// the remaining units in the response.
func (v *Verdict) Pending(in *answer.Response) *settle.Pending {
	v.await(v.Policies, v.Debits)
	v.await(v.Shadows.Policies, v.Shadows.Debits)
	if v.open != nil && in != nil {
		v.open.CorrectIn(in)
	}
	return v.open
}

func (v *Verdict) await(policies []*Policy, debits []engine.Debit) {
	for i := range debits {
		if debits[i].Pending != nil {
			addPending(v.opened(), policies[i:i+1], debits[i:i+1])
		}
	}
}

// opened returns the pending debits. It creates an empty Pending if there is none.
func (v *Verdict) opened() *settle.Pending {
	if v.open == nil {
		v.open = settle.New(v.Handler.Config,
			slices.ContainsFunc(v.Handler.Zones, func(z *Zone) bool { return z.Count != nil }))
	}
	return v.open
}

// addPending adds the debits that await the status.
func addPending(to *settle.Pending, policies []*Policy, debits []engine.Debit) {
	for i := range debits {
		if open := debits[i].Pending; open != nil {
			to.Add(policies[i], open)
		}
	}
}

// SettleTerms implements settle.Limit.
func (p *Policy) SettleTerms() *settle.Terms { return &p.Zone.Terms }

// Spent implements settle.Book.
func (cfg *Config) Spent(limit settle.Limit, leads bool, key []byte, units int64) {
	p := limit.(*Policy)
	if leads {
		p.Zone.Meter.Settle(units > 0)
	}
	if units > 0 && cfg.Ledger != nil {
		key := cfg.Ledger.Key(key)
		if leads {
			p.Zone.Past.Spend(key, units)
		}
		p.Past.Spend(key, units)
	}
}

// Silent implements settle.Book. It warns once.
func (cfg *Config) Silent(rule *settle.Rule) {
	rule.WhenSilent(func() {
		cfg.Warn(fmt.Sprintf("settle: an answer had no whole number in %s, so that its cost stayed charged", rule.From),
			"the field that the upstream sends, and let no handler behind rate_limit remove it")
	})
}

// UnitsOf returns how many units a debit is known to use up.
func UnitsOf(d *engine.Debit) int64 {
	if d.Counting != engine.Always {
		return 0
	}
	return d.Cost
}
