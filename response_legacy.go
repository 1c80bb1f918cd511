package tally

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// legacyFields are the values of the X-RateLimit fields, for the limit that is closest to
// exhaustion, and of the X-Quota fields, for the limit with the longest window of several.
type legacyFields struct {
	limit, remaining, reset           [1]string
	hasQuota                          bool
	quotaUsed, quotaLimit, quotaReset [1]string
}

func (p *response) legacyFields() *legacyFields {
	s := p.statuses[0]
	f := &legacyFields{
		limit:     [1]string{s.policy.legacy},
		remaining: [1]string{strconv.FormatInt(s.Remaining, 10)},
		reset:     [1]string{strconv.FormatInt(s.effective(p.refusal != nil), 10)},
	}
	i := slices.IndexFunc(p.statuses, func(s limitStatus) bool { return s.policy.quota })
	if i < 0 {
		return f
	}
	s = p.statuses[i]
	f.hasQuota = true
	f.quotaUsed[0] = strconv.FormatInt(s.used, 10)
	f.quotaLimit[0] = s.policy.legacy
	f.quotaReset[0] = strconv.FormatInt(s.effective(p.refusal != nil), 10)
	return f
}

func (f *legacyFields) set(h http.Header) {
	h[httpfield.LegacyLimit], h[httpfield.LegacyRemaining], h[httpfield.LegacyReset] = f.limit[:], f.remaining[:], f.reset[:]
	if f.hasQuota {
		h[httpfield.QuotaUsed], h[httpfield.QuotaLimit], h[httpfield.QuotaReset] = f.quotaUsed[:], f.quotaLimit[:], f.quotaReset[:]
	}
}
