package tally

// This file finds options that depend on what only a later handler sets.

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// identityFields are header fields in which proxies and their authentication services
// commonly say who a user is. A client may send them as well.
var identityFields = []string{
	"Cf-Access-Authenticated-User-Email", "Remote-Email", "Remote-Groups", "Remote-Name", "Remote-User",
	"Tailscale-User-Login", "X-Auth-Request-Email", "X-Auth-Request-User", "X-Authentik-Email", "X-Authentik-Username",
	"X-Forwarded-Email", "X-Forwarded-Preferred-Username", "X-Forwarded-User", "X-Goog-Authenticated-User-Email",
	"X-Remote-User", "X-Webauth-User",
}

// userDirective is what to write where a zone depends on who a user is.
const userDirective = "rate_limit_user instead of rate_limit: it runs after basic_auth and forward_auth; or in a route block and in JSON, put the handler behind the one that sets it"

// checkOrder finds what can't work, or hardly does, because a later handler sets what it depends
// on.
func checkOrder(s *survey) (found []Advice) {
	for _, p := range s.places {
		told := make(map[need]bool)
		for _, n := range p.needs(s.app.APIKeys) {
			problem, fix, fatal := p.judge(n.name)
			if problem == "" || told[n] {
				continue
			}
			told[n] = true
			advice := p.handler.advice(fmt.Sprintf("%s: {%s} %s", n.where, n.name, problem), fix)
			if n.zone != nil {
				advice.Zone, advice.Source = n.zone.Name, cmp.Or(n.zone.Source, advice.Source)
			}
			advice.Refused = fatal && !n.mild
			found = append(found, advice)
		}
	}
	return found
}

// judge says what is wrong with depending on a placeholder at this place among handlers,
// and what to write; "" if nothing is known to be. It is fatal if it can never work.
func (p *place) judge(name string) (problem, write string, fatal bool) {
	field, isField := strings.CutPrefix(name, "http.request.header.")
	if isField {
		field = http.CanonicalHeaderKey(field)
		name = "http.request.header." + field
	}
	isUser := strings.HasPrefix(name, "http.auth.")
	switch {
	case p.before.Has(name):
		return "", "", false
	case isField && p.after.Has(name):
		return "is set by a handler that runs later: until then it holds what the client has sent", userDirective, false
	case isField && slices.Contains(identityFields, field) && !p.before.Anything:
		return "is what the client has sent: nothing before this handler sets or removes it, so clients choose who they are", userDirective, false
	case isField || p.before.Anything:
		return "", "", false
	case isOfAnswer(name):
		return "is always empty here: no handler before this one has asked for an answer", "rate_limit_user if forward_auth sets it, or else a placeholder of the request", false
	case p.after.Has(name):
		return "is set by a handler that runs later: it is always empty here", userDirective, isUser
	case isUser:
		return "is always empty here: nothing before this handler authenticates users", userDirective, false
	}
	return "", "", false
}

// isOfAnswer reports whether a placeholder is about the answer, which doesn't exist yet.
func isOfAnswer(name string) bool {
	return slices.ContainsFunc([]string{"http.reverse_proxy.", "http.response.", "http.intercept."}, func(family string) bool {
		return strings.HasPrefix(name, family)
	})
}

// needs returns what the handler's config depends on.
func (p *place) needs(keys *APIKeys) (needs []need) {
	for _, z := range p.zones {
		needs = append(needs, z.needs()...)
	}
	if keys != nil && slices.ContainsFunc(p.zones, (*Zone).looksAtKeys) {
		for _, from := range keys.From {
			for _, n := range needsOfTexts(nil, "api_keys", from.Name) {
				n.mild = len(keys.From) > 1 // there are other places to look
				needs = append(needs, n)
			}
		}
	}
	if p.handler == nil {
		return needs
	}
	needs = append(needs, needsOfMatchers(nil, "exempt", p.handler.ExemptRaw)...)
	for _, t := range p.handler.Traps {
		needs = append(needs, needsOfMatchers(nil, "trap", t.MatcherSetsRaw)...)
	}
	return needs
}

// looksAtKeys reports whether the zone counts by API keys or takes limits from them.
func (z *Zone) looksAtKeys() bool {
	return z.Tiers || z.Per == enforce.PerAPIKey || z.Per == enforce.PerClient
}
