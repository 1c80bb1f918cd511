package tally

// This file finds handlers that no request reaches, and options that every request is meant by.

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

const firstInRoute = "rate_limit above it in a route block; outside of one, leave out the global option order for rate_limit"

// checkReach finds handlers that never run, or only for what others leave.
func checkReach(s *survey) (found []Advice) {
	for _, p := range s.places {
		if p.handler == nil {
			continue
		}
		switch {
		case p.hidden != "":
			found = append(found, p.handler.advice(fmt.Sprintf("this handler never runs: %s before it answers every request", p.hidden), firstInRoute))
		case p.inErrors:
			found = append(found, p.handler.advice("this handler is in handle_errors, where it sees only requests that have failed: all others pass without a limit",
				"rate_limit outside of handle_errors; count status 404 in a zone counts failed requests"))
		case p.leavings != "":
			found = append(found, p.handler.advice(fmt.Sprintf("%s before this handler answers, and nothing behind it does: what is answered is not limited", p.leavings), firstInRoute))
		}
	}
	return found
}

// checkEverything finds traps that every visitor walks into, and exemptions of everything.
func checkEverything(s *survey) (found []Advice) {
	for _, p := range s.places {
		if p.handler == nil {
			continue
		}
		if slices.ContainsFunc(p.handler.ExemptRaw, matchesEverything) {
			found = append(found, p.handler.advice("exempt: every request is exempt, so this handler limits nobody", "exempt with a path or network of its own, such as exempt /health"))
		}
		for _, t := range p.handler.Traps {
			if slices.ContainsFunc(t.MatcherSetsRaw, matchesEverything) {
				found = append(found, Advice{Source: t.Source, Problem: "trap: every request is one into the trap, also those of all visitors",
					Fix: "trap with a path that no visitor asks for, such as trap /wp-login.php"})
			}
		}
	}
	return found
}

// matchesEverything reports whether it is known that every request, or every page that browsers
// call up, matches a set.
func matchesEverything(set caddy.ModuleMap) bool {
	for name, raw := range set {
		if !isCatchAll(name, raw) {
			return false
		}
	}
	return true
}

func isCatchAll(name string, raw json.RawMessage) bool {
	everywhere := func(path string) bool { return path == "*" || path == "/*" }
	var list []string
	switch name {
	case "path":
		return json.Unmarshal(raw, &list) == nil && slices.ContainsFunc(list, everywhere)
	case "endpoint":
		var m matcher.Endpoint
		return json.Unmarshal(raw, &m) == nil && len(m.Methods)+len(m.Query) == 0 && slices.ContainsFunc(m.Paths, everywhere)
	case "client_ip", "remote_ip":
		var m struct{ Ranges []string }
		return json.Unmarshal(raw, &m) == nil && slices.Contains(m.Ranges, "0.0.0.0/0")
	}
	return false
}

// checkChallenges finds challenges that nobody is ever shown: only pages that browsers call up
// with GET have them.
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

// checkUntrusted finds servers that name fields for the client's address, and read none of them
// because they trust no proxy.
func checkUntrusted(s *survey) (found []Advice) {
	for server := range s.limited() {
		if slices.ContainsFunc(server.ClientIPHeaders, enforce.IsSingle) && !trustsProxies(server) {
			found = append(found, Advice{Server: server.Listen, Problem: "client_ip_headers has no effect without trusted_proxies: all visitors that come through one proxy share one count",
				Fix: "trusted_proxies static <networks of your proxy> beside client_ip_headers, in the global option servers"})
		}
	}
	return found
}

// checkCase finds zones whose names differ only in case.
func checkCase(s *survey) (found []Advice) {
	first := make(map[string]sitedZone)
	for _, z := range s.zones {
		name := strings.ToLower(z.Name)
		if other, ok := first[name]; !ok {
			first[name] = z
		} else if other.Name != z.Name {
			first[name] = z
			found = append(found, z.advice(fmt.Sprintf("zone %q differs from zone %q only in case%s: each counts on its own", z.Name, other.Name, inSource(other.Source)), "one name for both, or names that differ in more"))
		}
	}
	return found
}
