package report

import (
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// notifyOfQuotas notifies of keys of a decision that have used four fifths of a quota. What a debit knows of its
// key says so, whatever happened since the last one: no crossing is missed because units were settled after an answer,
// on another machine or in a lease.
func notifyOfQuotas(v *enforce.Verdict) {
	cfg := v.Handler.Config
	for i, p := range v.Policies {
		d := &v.Debits[i]
		whole := d.Whole()
		if !d.Known || 5*d.Quota.Remaining > whole.Amount() || whole.Algorithm() != limiter.Fixed ||
			whole.Window() < 24*time.Hour || isAnonymous(d.Key) || !cfg.Announces(notify.Quota) {
			continue
		}
		// The rest of a quota isn't known while a penalty refuses its key, or the store can't be used.
		if inst := cfg.Use(); inst != nil && !v.Decision.Degraded && (v.Decision.Allowed || p.Penalty == nil) {
			inst.NotifyOfQuota(p.Zone.Name, p.Name, d)
		}
	}
}

// isAnonymous reports whether a key is a client that nobody knows by name.
func isAnonymous(key []byte) bool {
	return len(key) > 0 && (identity.IsAddress(string(key)) || key[0] == identity.TagSession || key[0] == identity.TagUnknown)
}
