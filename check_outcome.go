package tally

// This file finds zones that never see the answers by which they are to count.

import "net/http"

// checkOutcomes finds zones that count answers which only earlier handlers give.
func checkOutcomes(s *survey) (found []Advice) {
	for _, p := range s.places {
		earlier := p.authenticates()
		for _, z := range p.zones {
			if earlier != "" && z.Count != nil && (z.Count.counts(http.StatusUnauthorized) || z.Count.counts(http.StatusForbidden)) {
				found = append(found, z.advice("count: "+earlier+" runs before this handler, so the zone never sees what it refuses: failed logins don't count", beforeAuthentication))
			}
		}
	}
	return found
}

// beforeAuthentication is what to write for a zone that is to see failed logins.
const beforeAuthentication = "rate_limit instead of rate_limit_user: it runs before basic_auth and forward_auth; or in a route block and in JSON, put the handler before the one that checks passwords"

// authenticates returns a handler that authenticates users before this one, or "".
func (p *place) authenticates() string {
	switch {
	case p.before.has("http.auth."):
		return "basic_auth"
	case p.before.has("http.reverse_proxy."):
		return "forward_auth"
	}
	return ""
}
