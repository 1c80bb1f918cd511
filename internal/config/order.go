package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// The next functions find options that depend on values that only a later handler sets.

// identityFields are header fields in which proxies and their authentication services commonly send
// the user's identity. Clients may send them as well.
var identityFields = []string{
	"Cf-Access-Authenticated-User-Email", "Remote-Email", "Remote-Groups", "Remote-Name", "Remote-User",
	"Tailscale-User-Login", "X-Auth-Request-Email", "X-Auth-Request-User", "X-Authentik-Email", "X-Authentik-Username",
	"X-Forwarded-Email", "X-Forwarded-Preferred-Username", "X-Forwarded-User", "X-Goog-Authenticated-User-Email",
	"X-Remote-User", "X-Webauth-User",
}

// userDirective is the fix for a zone that depends on the user.
const userDirective = "rate_limit_user instead of rate_limit: it runs after basic_auth and forward_auth; or in a route block and in JSON, put the handler behind the one that sets it"

// checkOrder finds options that can't work, or probably don't, because a later handler sets their
// input.
func checkOrder(s *survey) (found []Advice) {
	for _, p := range s.places {
		told := make(map[need]bool)
		for _, n := range p.needs(s.app.APIKeys) {
			problem, fix, fatal := p.judge(n.name)
			if s.bodies[n.name] {
				problem, fix, fatal = readsBodies, "a placeholder of the path or of a header field, or per ip", n.where == "api_keys"
			}
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

// readsBodies is the problem of a placeholder of the body.
const readsBodies = "makes Caddy read up to 64 KiB of each body before a decision: all longer ones are one key, cost all of the limit (or max_cost), and match zones but no exemptions"

// judge returns the problem with using a placeholder at this place among handlers, and its fix; ""
// if no problem is known. It is fatal if the use can never work.
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

// isOfAnswer reports whether a placeholder belongs to the answer, which doesn't exist yet.
func isOfAnswer(name string) bool {
	return slices.ContainsFunc([]string{"http.reverse_proxy.", "http.response.", "http.intercept."}, func(family string) bool {
		return strings.HasPrefix(name, family)
	})
}

// needs returns the placeholders that the handler's config depends on.
func (p *place) needs(keys *APIKeys) (needs []need) {
	for _, z := range p.zones {
		needs = append(needs, z.needs()...)
	}
	if keys != nil && slices.ContainsFunc(p.zones, (*Zone).looksAtKeys) {
		for _, from := range keys.From {
			for _, n := range needsOfTexts(nil, "api_keys", from.Name) {
				n.mild = len(keys.From) > 1 // the key may be in another place
				needs = append(needs, n)
			}
		}
	}
	if p.handler == nil {
		return needs
	}
	return append(needs, p.handler.matcherNeeds()...)
}

// matcherNeeds returns the placeholders in the handler's own matchers.
func (h *Handler) matcherNeeds() (needs []need) {
	needs = needsOfMatchers(nil, "exempt", h.ExemptRaw)
	for _, t := range h.Traps {
		if t != nil {
			needs = append(needs, needsOfMatchers(nil, "trap", t.MatcherSetsRaw)...)
		}
	}
	return needs
}

// looksAtKeys reports whether the zone counts by API keys or takes limits from them.
func (z *Zone) looksAtKeys() bool {
	return z.Tiers || z.Per == enforce.PerAPIKey || z.Per == enforce.PerClient
}

// The next functions find zones that never see the answers that they count.

// checkOutcomes finds zones that count answers of earlier handlers only.
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

// hides returns a counted status that makes a proxy ask another upstream instead, or 0. It ignores
// responses that are matched by header fields.
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

// relayed is the fix for a zone that should see the answer of the first upstream.
const relayed = "copy_response, respond or error in handle_response; or intercept in place of handle_response, and the proxy for the page in handle_errors"

// beforeAuthentication is the fix for a zone that should see failed logins.
const beforeAuthentication = "rate_limit instead of rate_limit_user: it runs before basic_auth and forward_auth; or in a route block and in JSON, put the handler before the one that checks passwords"

// authenticates returns an earlier handler that authenticates users, or "".
func (p *place) authenticates() string {
	switch {
	case p.before.Has("http.auth."):
		return "basic_auth"
	case p.before.Has("http.reverse_proxy."):
		return "forward_auth"
	}
	return ""
}

// The next functions find placeholders that are empty when a zone counts by them, but set later.

// lateFamilies are placeholders that handlers set during a request.
var lateFamilies = []string{"http.auth.", "http.reverse_proxy.", "http.vars.", "map."}

// noteLate notes the placeholders to check again when a request returns. That detects cases that
// the config doesn't show, such as handlers of other modules.
func (h *handlerCompiler) noteLate(zones []*Zone) {
	for i, z := range zones {
		for _, n := range append(needsOfTexts(z, "per key", z.Key), needsOfTexts(z, "tier", z.Tier)...) {
			if slices.ContainsFunc(lateFamilies, func(family string) bool { return strings.HasPrefix(n.name, family) }) && !h.app.survey.bodies[n.name] {
				h.run.Late = append(h.run.Late, &enforce.LateName{Zone: h.run.Zones[i], Where: n.where, Name: n.name, Warn: func(problem string) { z.warn(h.log, problem, userDirective) }})
			}
		}
	}
}

// need is a placeholder that a part of a handler's config depends on.
type need struct {
	zone  *Zone  // nil outside of zones
	where string // the option
	name  string // without braces
	mild  bool   // a config in which it can't work is accepted
}

func (z *Zone) needs() (needs []need) {
	needs = append(z.matcherNeeds(), z.textNeeds()...)
	for i := range needs {
		needs[i].mild = z.isPeerForm() // configs of mholt/caddy-ratelimit must be accepted
	}
	return needs
}

func (z *Zone) matcherNeeds() (needs []need) {
	for _, c := range z.Costs {
		needs = append(needs, needsOfMatchers(z, "cost", c.MatcherSetsRaw)...)
	}
	return append(needs, needsOfMatchers(z, "match", z.MatcherSetsRaw)...)
}

func (z *Zone) textNeeds() []need {
	needs := append(needsOfTexts(z, "per key", z.Key), needsOfTexts(z, "tier", z.Tier)...)
	for _, c := range append([]Cost{{Cost: z.Cost}}, z.Costs...) {
		needs = append(needs, needsOfTexts(z, "cost", c.Cost)...)
	}
	return needs
}

func needsOfTexts(z *Zone, where string, texts ...string) (needs []need) {
	for _, text := range texts {
		for _, name := range placeholder.Names(text) {
			needs = append(needs, need{zone: z, where: where, name: name})
		}
	}
	return needs
}

// needsOfMatchers returns the placeholders that matchers depend on: those in their texts, and those
// of the header fields that they use.
func needsOfMatchers(z *Zone, where string, matchers any) (needs []need) {
	raw, err := json.Marshal(matchers)
	if err != nil {
		return nil
	}
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	for _, name := range slices.Sorted(slices.Values(namesIn(value, nil))) {
		needs = append(needs, need{zone: z, where: where, name: name})
	}
	return needs
}

// namesIn appends the placeholders in the texts of a JSON value, and those equivalent to the header
// fields and variables in its matchers.
func namesIn(value any, names []string) []string {
	switch value := value.(type) {
	case string:
		names = append(names, placeholder.Names(value)...)
	case []any:
		for _, element := range value {
			names = namesIn(element, names)
		}
	case map[string]any:
		for key, element := range value {
			names = append(names, placeholder.Names(key)...)
			fields, _ := element.(map[string]any)
			for field := range fields {
				switch key {
				case "header", "header_regexp":
					names = append(names, "http.request.header."+field)
				case "vars", "vars_regexp":
					names = append(names, "http.vars."+field)
				}
			}
			names = namesIn(element, names)
		}
	}
	return names
}

// The next functions find handlers that no request reaches, and options that match every request.

const firstInRoute = "rate_limit above it in a route block; outside of one, leave out the global option order for rate_limit"

// checkReach finds handlers that never run, or only for requests that earlier handlers don't
// answer.
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

// checkEverything finds traps and exemptions that match all requests.
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

// matchesEverything reports whether a set is known to match every request, or every page that
// browsers load.
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

// checkUntrusted finds servers that configure fields for the client's address, but ignore them
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
