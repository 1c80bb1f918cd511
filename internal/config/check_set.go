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

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// checkSet asks whether what an option waits for will ever be set, or match.
func checkSet(s *survey) []Advice {
	return slices.Concat(s.checkNeeds(), checkOutcomes(s), checkMentions(s), s.checkKeySources(), s.checkCountries(), s.checkLogs())
}

// checkKeySources finds places of API keys that never hold one.
func (s *survey) checkKeySources() []Advice {
	isField := func(from KeySource) bool {
		return strings.EqualFold(strings.TrimPrefix(strings.Trim(from.Name, "{}"), "http.request.header."), "Authorization")
	}
	if s.app.APIKeys == nil || !slices.ContainsFunc(s.app.APIKeys.From, isField) {
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
	for _, p := range s.places {
		for _, o := range p.sets() {
			for _, set := range withNegated(o.ModuleMap) {
				var list struct{ Codes []string }
				_ = json.Unmarshal(set["country"], &list)
				for _, code := range list.Codes {
					if fix := cmp.Or(map[string]string{"UK": "country GB", "EL": "country GR"}[code], "a code of ISO 3166-1, such as country DE"); !slices.Contains(strings.Fields(countries), code) {
						found = append(found, o.advice(fmt.Sprintf("country: no address is in %q: this matcher never matches it", code), fix))
					}
				}
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

// checkNeeds finds options whose input a later handler sets, or none.
func (s *survey) checkNeeds() (found []Advice) {
	for _, p := range s.places {
		reported := make(map[need]bool)
		for _, n := range p.needs(s.app.APIKeys) {
			problem, fix, fatal := p.judge(n.name)
			switch {
			case s.bodies[n.name]:
				problem, fix, fatal = readsBodies, "a placeholder of the path or a field, or per ip", n.where == "api_keys"
			case bodyfield.IsField(n.name) && n.zone == nil:
				problem, fix, fatal = "is set for the options of zones only", "a placeholder of the path or of a header field", true
			case problem == "" && s.onlyBasicAuth() && strings.HasPrefix(n.name, userOfAuth) && n.name != userID:
				problem, fix = "is never set: basic_auth sets {"+userID+"} only", "{"+userID+"}"
			case problem == "" && n.zone != nil && p.neverSets(n.name):
				problem, fix = "is never set: no handler or vars directive sets it", "a placeholder of the request, or vars with this name before it"
			}
			if problem == "" || reported[n] {
				continue
			}
			reported[n] = true
			a := optionSet{zone: n.zone, source: cmp.Or(n.source, p.handler.Source)}.advice(fmt.Sprintf("%s: {%s} %s", n.where, n.name, problem), fix)
			a.Refused = fatal && !n.mild
			found = append(found, a)
		}
		for _, z := range p.zones {
			if names := slices.DeleteFunc(routing.PlaceholderNames(z.Settle), func(name string) bool { return !p.neverSets(name) }); len(names) > 0 {
				found = append(found, z.advice(fmt.Sprintf("settle: {%s} is never set when a request ends: its cost stays", names[0]), "settle {http.response.header.X-Tokens}, with the field of the answer"))
			}
		}
	}
	return found
}

// onlyBasicAuth reports whether users are known by basic_auth alone.
func (s *survey) onlyBasicAuth() bool {
	return !s.foreign && len(s.providers) == 1 && s.providers["http_basic"]
}

// checkOutcomes finds zones that count answers of earlier handlers only.
func checkOutcomes(s *survey) (found []Advice) {
	for _, p := range s.places {
		earlier := p.authenticates()
		for _, z := range p.zones {
			if earlier != "" && z.Count != nil && (z.Count.rule().Counts(http.StatusUnauthorized) || z.Count.rule().Counts(http.StatusForbidden)) {
				found = append(found, z.advice("count: "+earlier+" runs before this handler, so that failed logins don't count", beforeAuthentication))
			}
			if status := p.hides(z.Count); status != 0 {
				found = append(found, z.advice(fmt.Sprintf("count: where an upstream answers %d, handle_response asks another upstream, and only its answer counts", status), relayed))
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
const relayed = "copy_response, respond or error in handle_response; or intercept, and the proxy in handle_errors"

// beforeAuthentication is the fix for a zone that should see failed logins.
const beforeAuthentication = "rate_limit instead of rate_limit_user; or in route blocks and in JSON, the handler before the one that checks passwords"

// checkMentions finds our placeholders in other handlers that are never set.
func checkMentions(s *survey) (found []Advice) {
	for _, name := range slices.Sorted(maps.Keys(s.mentions)) {
		if problem, fix := s.doubtfulPlaceholder(name); problem != "" {
			found = append(found, Advice{Problem: problem, Fix: fix, Handler: s.mentions[name]})
		}
	}
	return found
}
