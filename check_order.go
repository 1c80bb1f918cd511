package tally

// This file finds options that depend on what only a later handler sets.

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
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

// checkOrder returns an error about what can't work because a later handler sets what it
// depends on, and warns of what hardly does. It comes before anything is loaded, since
// texts are given up then.
func (h *Handler) checkOrder(ctx caddy.Context) error {
	needs := h.needs()
	if len(needs) == 0 {
		return nil
	}
	around := aroundHandler(ctx)
	told := make(map[need]bool)
	for _, n := range needs {
		problem, write, fatal := around.judge(n.name)
		if problem == "" || told[n] {
			continue
		}
		told[n] = true
		problem = fmt.Sprintf("%s: {%s} %s", n.where, n.name, problem)
		source := h.Source
		if n.zone != nil && n.zone.Source != "" {
			source = n.zone.Source
		}
		if fatal && !n.mild {
			err := fmt.Errorf("%s; write %s", problem, write)
			if n.zone != nil {
				err = fmt.Errorf("zone %q: %w", n.zone.Name, err)
			}
			return atSource(err, source)
		}
		if n.zone != nil {
			n.zone.warn(h.log, problem, write)
		} else {
			h.warn(problem, write)
		}
	}
	return nil
}

// judge says what is wrong with depending on a placeholder at this place among handlers,
// and what to write; "" if nothing is known to be. It is fatal if it can never work.
func (a *around) judge(name string) (problem, write string, fatal bool) {
	field, isField := strings.CutPrefix(name, "http.request.header.")
	if isField {
		field = http.CanonicalHeaderKey(field)
		name = "http.request.header." + field
	}
	isUser := strings.HasPrefix(name, "http.auth.")
	switch {
	case a.before.has(name):
		return "", "", false
	case isField && a.after.has(name):
		return "is set by a handler that runs later: until then it holds what the client has sent", userDirective, false
	case isField && slices.Contains(identityFields, field) && !a.before.anything:
		return "is what the client has sent: nothing before this handler sets or removes it, so clients choose who they are", userDirective, false
	case isField || a.before.anything:
		return "", "", false
	case isOfAnswer(name):
		return "is always empty here: no handler before this one has asked for an answer", "rate_limit_user if forward_auth sets it, or else a placeholder of the request", false
	case a.after.has(name):
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
func (h *Handler) needs() (needs []need) {
	zones, err := h.ordered()
	if err != nil {
		return nil // as provisioning them will say
	}
	for _, z := range zones {
		needs = append(needs, z.needs()...)
	}
	if slices.ContainsFunc(zones, (*Zone).looksAtKeys) && h.app.APIKeys != nil {
		for _, from := range h.app.APIKeys.From {
			for _, n := range needsOfTexts(nil, "api_keys", from.Name) {
				n.mild = len(h.app.APIKeys.From) > 1 // there are other places to look
				needs = append(needs, n)
			}
		}
	}
	needs = append(needs, needsOfMatchers(nil, "exempt", h.ExemptRaw)...)
	for _, t := range h.Traps {
		if t != nil {
			needs = append(needs, needsOfMatchers(nil, "trap", t.MatcherSetsRaw)...)
		}
	}
	return needs
}

// looksAtKeys reports whether the zone counts by API keys or takes limits from them.
func (z *Zone) looksAtKeys() bool { return z.Tiers || z.Per == perAPIKey || z.Per == perClient }
