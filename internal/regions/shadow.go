package regions

import "github.com/caddy-tally/caddy-tally/limiter/engine"

// Shadow decides as [engine.Engine.Shadow] does, with what other regions have admitted, and
// counts for them what it would admit. What is known of shadow limits crosses regions as that of
// others does, so that a limit that leaves shadow knows all of it.
func (r *Regions) Shadow(debits []engine.Debit) (d engine.Decision, decided bool) {
	now := r.opts.Engine.Now()
	r.lower(debits, now)
	d, decided = r.opts.Engine.Shadow(debits)
	if d.Allowed {
		r.admitted(debits, now)
	}
	return d, decided
}

// ShadowLater decides as [engine.Engine.ShadowLater] does, about debits that Shadow has not
// decided about.
func (r *Regions) ShadowLater(debits []engine.Debit, later func([]engine.Debit, engine.Decision)) {
	r.opts.Engine.ShadowLater(debits, func(debits []engine.Debit, d engine.Decision) {
		if d.Allowed {
			r.admitted(debits, r.opts.Engine.Now())
		}
		later(debits, d)
	})
}
