package config

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

const firstInRoute = "rate_limit above it in a route block; or, if there is a global option order for rate_limit, leave that out"

// checkReach finds handlers that never run, or only for requests that earlier handlers don't
// answer.
func checkReach(s *survey) (found []Advice) {
	for _, p := range s.places {
		if p.handler == nil {
			continue
		}
		switch {
		case p.Hidden != "":
			found = append(found, p.handler.advice(fmt.Sprintf("this handler never runs: %s before it answers every request", p.Hidden), firstInRoute))
		case p.InErrors:
			found = append(found, p.handler.advice("this handler is in handle_errors, where it sees only requests that have failed: all others pass without a limit",
				"rate_limit outside of handle_errors; count status 404 in a zone counts failed requests"))
		case p.Leavings() != "":
			found = append(found, p.handler.advice(fmt.Sprintf("%s before this handler answers, and nothing behind it does: what is answered is not limited", p.Leavings()), firstInRoute))
		}
	}
	return found
}

// checkChallenges finds challenges that are never shown: they are only for pages that browsers
// request with GET.
func checkChallenges(s *survey) (found []Advice) {
	for _, z := range s.zones {
		if z.OnExceeded == onExceededChallenge && len(z.MatcherSetsRaw) > 0 && !slices.ContainsFunc(z.MatcherSetsRaw, mayBeGET) {
			found = append(found, z.advice("on_exceeded: nobody is ever challenged, because only pages that browsers call up with GET are, and the zone has none: its requests are refused",
				"on_exceeded refuse; or match the pages that lead there, such as match GET /*"))
		}
	}
	return found
}

// mayBeGET reports whether a set may match requests with the method GET.
func mayBeGET(set caddy.ModuleMap) bool {
	var methods []string
	var m matcher.Endpoint
	if json.Unmarshal(set["method"], &methods) == nil && !slices.Contains(methods, "GET") {
		return false
	}
	return json.Unmarshal(set["endpoint"], &m) != nil || len(m.Methods) == 0 || slices.Contains(m.Methods, "GET")
}

// checkIdle finds a handler without effect.
func (h *handlerCompiler) checkIdle() (found []Advice) {
	if len(h.run.Zones) == 0 && len(h.Traps) == 0 && h.app.Session == nil {
		found = append(found, h.advice("this handler has no zone, and limits nothing", "zone login {, limit 5/1m and }, each on a line of its own"))
	}
	return found
}

// checkIdleBan finds a ban that can't occur.
func checkIdleBan(s *survey) []Advice {
	a := s.app
	apply := func(z sitedZone) bool { return z.wantsClients() && z.Ban == nil && !z.wantsShadow() }
	if a.Ban == nil || s.traps || a.Session != nil || slices.ContainsFunc(s.zones, apply) {
		return nil
	}
	return []Advice{{Source: a.Source, Problem: "ban: nobody is banned, because no zone counts per client or per api_key, and there is no trap",
		Fix: "per client in a zone whose limits lead to bans"}}
}

// userID is the placeholder of the authenticated user.
const userID = "http.auth.user.id"

// checkShut finds a dashboard that can never admit a request.
func (dash *Dashboard) checkShut(places []*place) []Advice {
	shut := func(p *place) bool {
		return len(dash.AllowRaw) == 0 && !p.before.Anything && !p.before.Has(userID)
	}
	if !slices.ContainsFunc(places, shut) {
		return nil
	}
	return []Advice{{Source: dash.Source, Problem: "rate_limit_dashboard: everybody is answered with 403: nothing before this handler authenticates users",
		Fix: "basic_auth before it, for the same paths; or allow with a matcher"}}
}
