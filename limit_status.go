package tally

import (
	"cmp"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// limitStatus is what a client has left of one limit after a decision.
type limitStatus struct {
	policy *policy
	limiter.Quota
	used int64
}

// newLimitStatus returns what a debit has left for its client. The limit that decided may be
// a share of the policy's; what is used is counted from that share.
func newLimitStatus(p *policy, d *engine.Debit) limitStatus {
	return limitStatus{p, d.Quota, max(cmp.Or(d.Reduced, d.Limit.Capacity())-d.Quota.Remaining, 0)}
}

// isTighter reports whether less is left of s than of t, in relation to their
// limits.
func (s limitStatus) isTighter(t limitStatus) bool {
	return float64(s.Remaining)*float64(t.policy.Capacity()) < float64(t.Remaining)*float64(s.policy.Capacity())
}

// isOfSet reports whether two limits are of one set, or of two that say the same.
func (s limitStatus) isOfSet(t limitStatus) bool { return s.policy.set.field == t.policy.set.field }

// effective returns the value of the parameter t in seconds: how long the remaining units
// must last, or if none remain, how long until there are some again.
func (s limitStatus) effective(refused bool) int64 {
	switch {
	case s.Remaining > 0:
		return max(httpfield.Seconds(min(s.Reset, s.policy.Window())), 0)
	case !refused:
		return max(httpfield.Seconds(s.policy.NextUnit(s.Quota)), 1)
	}
	return httpfield.Seconds(s.Reset)
}
