package tally

// This file finds zones that never see the answers by which they are to count.

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// checkOutcomes finds zones that count answers which only earlier handlers give.
func checkOutcomes(s *survey) (found []Advice) {
	for _, p := range s.places {
		earlier := p.authenticates()
		for _, z := range p.zones {
			if earlier != "" && z.Count != nil && (z.Count.rule().Counts(http.StatusUnauthorized) || z.Count.rule().Counts(http.StatusForbidden)) {
				found = append(found, z.advice("count: "+earlier+" runs before this handler, so the zone never sees what it refuses: failed logins don't count", beforeAuthentication))
			}
			if status := p.hides(z.Count); status != 0 {
				found = append(found, z.advice(fmt.Sprintf("count: where an upstream answers %d, handle_response asks another upstream, and the zone sees the answer of that one alone: what the first answered doesn't count", status), relayed))
			}
		}
	}
	return found
}

// hides returns a status that counts, and in whose place a proxy asks another upstream, or 0. Which
// responses a matcher of header fields means isn't known.
func (p *place) hides(c *Count) int {
	for _, responses := range p.relayed {
		if c == nil || len(responses.Headers) > 0 {
			continue
		}
		for status := http.StatusBadRequest; status < 600; status++ {
			if c.rule().Counts(status) && (caddyhttp.ResponseMatcher{StatusCode: responses.StatusCode}).Match(status, nil) {
				return status
			}
		}
	}
	return 0
}

// relayed is what to write for a zone that is to see what the first upstream answered.
const relayed = "copy_response, respond or error in handle_response; or intercept in place of handle_response, and the proxy for the page in handle_errors"

// beforeAuthentication is what to write for a zone that is to see failed logins.
const beforeAuthentication = "rate_limit instead of rate_limit_user: it runs before basic_auth and forward_auth; or in a route block and in JSON, put the handler before the one that checks passwords"

// authenticates returns a handler that authenticates users before this one, or "".
func (p *place) authenticates() string {
	switch {
	case p.before.Has("http.auth."):
		return "basic_auth"
	case p.before.Has("http.reverse_proxy."):
		return "forward_auth"
	}
	return ""
}
