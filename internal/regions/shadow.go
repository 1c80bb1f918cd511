package regions

import "github.com/caddy-tally/caddy-tally/internal/engine"

// Shadow decides as [engine.Engine.Shadow] does, but includes the units that other regions have
// admitted, and counts the units that it would admit for them. Counts of shadow limits are
// exchanged like others, so that a limit that leaves shadow has complete counts.
func (r *Regions) Shadow(debits []engine.Debit) (d engine.Decision, decided bool) {
	now := r.opts.Engine.Now()
	r.lower(debits, now)
	d, decided = r.opts.Engine.Shadow(debits)
	if d.Allowed {
		r.admitted(debits, now)
	}
	return d, decided
}

// ShadowLater decides as [engine.Engine.ShadowLater] does, about debits for which Shadow couldn't
// decide.
func (r *Regions) ShadowLater(debits []engine.Debit, later func([]engine.Debit, engine.Decision)) {
	r.opts.Engine.ShadowLater(debits, func(debits []engine.Debit, d engine.Decision) {
		if d.Allowed {
			r.admitted(debits, r.opts.Engine.Now())
		}
		later(debits, d)
	})
}
