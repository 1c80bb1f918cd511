package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/typo"
)

// userDirective is the fix for a zone that depends on the user.
const userDirective = "rate_limit_user instead of rate_limit: it runs after basic_auth and forward_auth; or in a route block and in JSON, put the handler behind the one that sets it"

// checkSet asks whether what an option waits for will ever be set, or match.
func checkSet(s *survey) []Advice {
	return slices.Concat(checkOrder(s), checkOutcomes(s), checkMentions(s), s.checkSettled(), s.checkKeySources(), s.checkCountries(), s.checkLogs())
}

// checkSettled finds measures that no handler sets until the request ends, and variables that nothing sets.
func (s *survey) checkSettled() (found []Advice) {
	for _, p := range s.places {
		unset := func(name string) bool {
			family := slices.ContainsFunc([]string{"http.intercept.", "http.reverse_proxy.", "http.vars."}, func(f string) bool { return strings.HasPrefix(name, f) })
			return family && !p.before.Anything && !p.after.Anything && !p.before.Has(name) && !p.after.Has(name) && !slices.Contains([]string{"http.vars.client_ip", "http.vars.root"}, name)
		}
		for _, z := range p.zones {
			if i := slices.IndexFunc(routing.PlaceholderNames(z.Settle), unset); i >= 0 {
				found = append(found, z.advice(fmt.Sprintf("settle: {%s} is never set when a request ends: its cost stays", routing.PlaceholderNames(z.Settle)[i]), "settle {http.response.header.X-Tokens}, with the field of the answer"))
			}
			for _, n := range z.needs() {
				if strings.HasPrefix(n.name, "http.vars.") && unset(n.name) {
					found = append(found, z.advice(fmt.Sprintf("%s: {%s} is never set: no vars directive has this name", n.where, n.name), "a placeholder of the request, or vars with this name before it"))
				}
			}
		}
	}
	return found
}

// checkKeySources finds places of API keys that never hold one.
func (s *survey) checkKeySources() []Advice {
	if s.app.APIKeys == nil || !slices.ContainsFunc(s.app.APIKeys.From, func(from KeySource) bool {
		return strings.EqualFold(strings.Trim(from.Name, "{}"), "Authorization") || strings.EqualFold(strings.Trim(from.Name, "{}"), "http.request.header.Authorization")
	}) {
		return nil
	}
	return []Advice{{Source: s.app.Source, Problem: "api_keys: from: Authorization holds a word before the key, such as Bearer, so that every key is answered with 400", Fix: "from bearer"}}
}

// countries are the codes of ISO 3166-1, and EU, AP and XK, which files of networks have besides.
const countries = "AD AE AF AG AI AL AM AO AP AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ " +
	"DE DJ DK DM DO DZ EC EE EG EH ER ES ET EU FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ " +
	"LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW " +
	"SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW"

// checkCountries finds codes of countries that no address has.
func (s *survey) checkCountries() (found []Advice) {
	for _, m := range s.matchers() {
		var list struct{ Codes []string }
		_ = json.Unmarshal(m.sets["country"], &list)
		for _, code := range list.Codes {
			if fix := cmp.Or(map[string]string{"UK": "country GB", "EL": "country GR"}[code], "a code of ISO 3166-1, such as country DE"); !slices.Contains(strings.Fields(countries), code) {
				found = append(found, Advice{Problem: fmt.Sprintf("country: no address is in %q: this matcher never matches it", code), Fix: fix, Source: m.source, Zone: m.zone})
			}
		}
	}
	return found
}

// checkLogs finds logs that wait for lines that are never written.
func (s *survey) checkLogs() []Advice {
	if s.app.DecisionLog != nil || !slices.Contains(s.logs, "http.log.rate_limit") {
		return nil
	}
	return []Advice{{Source: s.app.Source, Problem: "a log includes http.log.rate_limit, which is never written", Fix: "decision_log into the global option rate_limit"}}
}

// checkOrder finds options that can't work, or probably don't, because a later handler sets their
// input.
func checkOrder(s *survey) (found []Advice) {
	for _, p := range s.places {
		reported := make(map[need]bool)
		for _, n := range p.needs(s.app.APIKeys) {
			problem, fix, fatal := p.judge(n.name)
			if s.bodies[n.name] {
				problem, fix, fatal = readsBodies, "a placeholder of the path or of a header field, or per ip", n.where == "api_keys"
			} else if bodyfield.IsField(n.name) && n.zone == nil {
				problem, fix, fatal = "is set for the options of zones only", "a placeholder of the path or of a header field", true
			}
			if problem == "" || reported[n] {
				continue
			}
			reported[n] = true
			a := p.handler.advice(fmt.Sprintf("%s: {%s} %s", n.where, n.name, problem), fix)
			if n.zone != nil {
				a.Zone, a.Source = n.zone.Name, cmp.Or(n.zone.Source, a.Source)
			}
			a.Refused = fatal && !n.mild
			found = append(found, a)
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
	for _, responses := range p.Relayed() {
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

// lateFamilies are placeholders that handlers set during a request.
var lateFamilies = []string{"http.auth.", "http.reverse_proxy.", "http.vars.", "map."}

// noteLate notes the placeholders to check again when a request returns. That detects cases that
// the config doesn't show, such as handlers of other modules.
func (h *handlerCompiler) noteLate(zones []*Zone) {
	for i, z := range zones {
		for _, n := range append(needsOfTexts(z, "per key", z.Key), needsOfTexts(z, "tier", z.Tier)...) {
			if slices.ContainsFunc(lateFamilies, func(family string) bool { return strings.HasPrefix(n.name, family) }) && !h.app.survey.bodies[n.name] {
				a := z.advice(n.where+": {"+n.name+"} was empty when the zone counted a request, and was set later on its way", userDirective)
				h.run.Late = append(h.run.Late, &enforce.LateName{Zone: h.run.Zones[i], Name: n.name, Advice: a})
			}
		}
	}
}

// checkMentions finds our placeholders in other handlers that are never set.
func checkMentions(s *survey) (found []Advice) {
	for _, name := range slices.Sorted(maps.Keys(s.mentions)) {
		if problem, fix := s.doubtfulPlaceholder(name); problem != "" {
			found = append(found, Advice{Problem: problem, Fix: fix, Handler: s.mentions[name]})
		}
	}
	return found
}

// doubtfulPlaceholder returns the problem with one of our placeholders that is never set, and what
// to write instead.
func (s *survey) doubtfulPlaceholder(name string) (problem, fix string) {
	if bodyfield.IsField(name) {
		return fmt.Sprintf("placeholder {%s} is set for the options of zones only, while they decide", name), "one of the request"
	}
	rest := strings.TrimPrefix(name, enforce.OurPlaceholders)
	known := slices.Sorted(maps.Keys(answer.ExceededPlaceholders))
	for _, part := range enforce.ClientPlaceholders {
		known = append(known, "client"+part)
	}
	if slices.Contains(known, rest) {
		return "", ""
	}
	for _, z := range s.zones {
		known = append(known, z.Name+".remaining")
		if z.mayShadow() {
			known = append(known, z.Name+enforce.WouldRefuseSuffix)
		}
	}
	if slices.Contains(known, rest) {
		return "", ""
	}
	best, least := known[0], 3
	if zone, ok := strings.CutSuffix(rest, enforce.WouldRefuseSuffix); ok && slices.Contains(known, zone+".remaining") {
		return fmt.Sprintf("placeholder {%s}: no limit of zone %q has shadow", name, zone), "limit 5/1m shadow into the zone"
	}
	if zone, ok := strings.CutSuffix(rest, ".remaining"); ok {
		if len(s.zones) == 0 {
			return "", "" // there is no survey
		}
		best = s.zones[0].Name + ".remaining"
		for _, z := range s.zones {
			if n := typo.Distance(z.Name, zone); n < least {
				best, least = z.Name+".remaining", n
			}
		}
		return fmt.Sprintf("placeholder {%s}: there is no zone %q", name, zone), "{" + enforce.OurPlaceholders + best + "}"
	}
	for _, candidate := range known {
		n := typo.Distance(candidate, rest)
		if strings.HasSuffix(candidate, "."+rest) {
			n = 0
		}
		if n < least {
			best, least = candidate, n
		}
	}
	if least == 3 {
		return fmt.Sprintf("placeholder {%s} is never set", name), "one that is, such as {" + enforce.OurPlaceholders + "exceeded.name}"
	}
	return fmt.Sprintf("placeholder {%s} is never set", name), "{" + enforce.OurPlaceholders + best + "}"
}

// checkOurPlaceholders returns an error about one of our placeholders in the options of the zone that
// is never set.
func (z *zoneCompiler) checkOurPlaceholders() error {
	for _, n := range z.textNeeds() {
		if !strings.HasPrefix(n.name, enforce.OurPlaceholders) || bodyfield.IsField(n.name) {
			continue
		}
		if problem, fix := z.app.survey.doubtfulPlaceholder(n.name); problem != "" {
			return &matcher.MistakeError{Problem: problem, Fix: fix}
		}
	}
	return nil
}

// checkUser finds placeholders of the user that are never set, because only basic_auth
// authenticates.
func (z *zoneCompiler) checkUser() (found []Advice) {
	const user = "http.auth.user."
	if s := z.app.survey; s.foreign || len(s.providers) != 1 || !s.providers["http_basic"] {
		return nil
	}
	for _, name := range append(routing.PlaceholderNames(z.Key), routing.PlaceholderNames(z.Tier)...) {
		if field, ok := strings.CutPrefix(name, user); ok && field != "id" {
			found = append(found, z.advice(fmt.Sprintf("{%s} is never set: basic_auth sets {%sid} only", name, user), "{"+user+"id}"))
		}
	}
	return found
}
