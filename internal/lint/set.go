package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// checkSet asks whether what an option waits for will ever be set, or match.
func checkSet(s *config.Survey) []advice.Advice {
	return slices.Concat(checkNeeds(s), checkOutcomes(s), checkMentions(s), checkKeySources(s), checkCountries(s),
		checkLogs(s))
}

// checkKeySources finds places of API keys that never hold one.
func checkKeySources(s *config.Survey) []advice.Advice {
	isField := func(from config.KeySource) bool {
		return strings.EqualFold(strings.TrimPrefix(strings.Trim(from.Name, "{}"), "http.request.header."),
			"Authorization")
	}
	if s.App.APIKeys == nil || !slices.ContainsFunc(s.App.APIKeys.From, isField) {
		return nil
	}
	return []advice.Advice{{Source: s.App.Source, Problem: "api_keys: from: Authorization holds a word before the key, such as Bearer, so that every key is answered with 400", Fix: "from bearer"}}
}

// countries are the codes of ISO 3166-1, and EU, AP and XK, which files of networks have besides.
const countries = "AD AE AF AG AI AL AM AO AP AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ " +
	"DE DJ DK DM DO DZ EC EE EG EH ER ES ET EU FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ " +
	"LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW " +
	"SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW"

// checkCountries finds codes of countries that no address has.
func checkCountries(s *config.Survey) (found []advice.Advice) {
	for _, p := range s.Places {
		for _, o := range p.Sets() {
			for _, set := range config.WithNegated(o.ModuleMap) {
				var list struct{ Codes []string }
				_ = json.Unmarshal(set["country"], &list)
				for _, code := range list.Codes {
					if fix := cmp.Or(map[string]string{"UK": "country GB", "EL": "country GR"}[code],
						"a code of ISO 3166-1, such as country DE"); !slices.Contains(strings.Fields(countries), code) {
						found = append(found,
							o.Advice(fmt.Sprintf("country: no address is in %q: this matcher never matches it", code),
								fix))
					}
				}
			}
		}
	}
	return found
}

// checkLogs finds logs that wait for lines that are never written.
func checkLogs(s *config.Survey) []advice.Advice {
	if s.App.DecisionLog != nil || !slices.Contains(s.Logs, "http.log.rate_limit") {
		return nil
	}
	return []advice.Advice{{Source: s.App.Source, Problem: "a log includes http.log.rate_limit, which is never written",
		Fix: "decision_log into the global option rate_limit"}}
}

// checkNeeds finds options whose input a later handler sets, or none.
func checkNeeds(s *config.Survey) (found []advice.Advice) {
	for _, p := range s.Places {
		reported := make(map[config.Need]bool)
		for _, n := range p.Needs(s.App.APIKeys) {
			problem, fix, fatal := p.Judge(n.Name)
			if problem == "" && !p.Earlier.Anything {
				problem, fix = onItsWays(p, n)
			}
			switch {
			case s.Bodies[n.Name]:
				problem, fix, fatal = config.ReadsBodies, "a placeholder of the path or a field, or per ip",
					n.Where == "api_keys"
			case bodyfield.IsField(n.Name) && n.Zone == nil:
				problem, fix, fatal = "is set for the options of zones only",
					"a placeholder of the path or of a header field", true
			case problem == "" && onlyBasicAuth(s) && strings.HasPrefix(n.Name, config.UserOfAuth) &&
				n.Name != config.UserID:
				problem, fix = "is never set: basic_auth sets {"+config.UserID+"} only", "{"+config.UserID+"}"
				if n.Where == "tier" {
					fix = "tier {map.plan}; with map {" + config.UserID + "} {map.plan} {, alice pro and } in the site"
				}
			case problem == "" && n.Zone != nil && p.NeverSets(n.Name):
				problem, fix = "is never set: no handler or vars directive sets it",
					"a placeholder of the request, or vars with this name before it, or for certificates client_auth in tls"
			}
			if problem == "" || reported[n] {
				continue
			}
			reported[n] = true
			a := config.OptionSet{Zone: n.Zone,
				Source: cmp.Or(n.Source, p.Handler.Source)}.Advice(fmt.Sprintf("%s: {%s} %s", n.Where, n.Name, problem),
				fix)
			a.Refused = fatal && !n.Mild
			found = append(found, a)
		}
		for _, z := range p.Zones {
			if names := slices.DeleteFunc(routing.PlaceholderNames(z.Settle),
				func(name string) bool { return !p.NeverSets(name) }); len(names) > 0 {
				found = append(found,
					z.Advice(fmt.Sprintf("settle: {%s} is never set when a request ends: its cost stays", names[0]),
						"settle {http.response.header.X-Tokens}, with the field of the answer"))
			}
		}
	}
	return found
}

// noted returns the name under which witnesses note what handlers set, or "".
func noted(name string) string {
	switch field, isField := strings.CutPrefix(name, "http.request.header."); {
	case isField:
		return http.CanonicalHeaderKey(field)
	case strings.HasPrefix(name, "http.auth."):
		return "http.auth."
	case strings.HasPrefix(name, "http.vars."):
		return name
	}
	return ""
}

// onItsWays returns the problem of a placeholder that a handler or matcher sets, but not on the ways of the requests
// that need it, and its fix; or "".
func onItsWays(p *config.Place, n config.Need) (problem, fix string) {
	name, key := n.Name, noted(n.Name)
	isField := strings.HasPrefix(name, "http.request.header.")
	if isField {
		name = "http.request.header." + key
	}
	capture, isCapture := strings.CutPrefix(name, "http.regexp.")
	capture, _, _ = strings.Cut(capture, ".")
	isCapture = isCapture && strings.Trim(capture, "0123456789") != ""
	if !isCapture && !p.Earlier.Has(name) { // nothing depends on the way
		return "", ""
	}
	sets := []caddy.ModuleMap{nil}
	if n.Zone != nil && len(n.Zone.MatcherSetsRaw) > 0 {
		sets = n.Zone.MatcherSetsRaw
	}
	sometimes, captured := false, false
	var all routing.Witnessed
	for _, set := range sets {
		ways := p.Witness(routing.NewRequests(set))
		_, every := p.WitnessStranger(routing.NewRequests(set)).Set(key)
		sometimes = sometimes || !every
		captured = captured || ways.MayCapture(capture)
		all = append(all, ways...)
	}
	isSet, _ := all.Set(key)
	switch {
	case strings.HasPrefix(name, "http.vars.") && !isSet && n.Zone != nil:
		return "is always empty here: the handler that sets it is for other requests", "vars without a matcher, or for these requests; or a placeholder of the request"
	case strings.HasPrefix(name, "http.auth.") && !isSet:
		return "is always empty here: what authenticates users is for other requests", "basic_auth for these requests, too; or per ip"
	case isField && sometimes:
		return "is what the client has sent where the handler that sets it doesn't run: it is for other requests", "request_header -" + key + " before it, in a route block around both; or that handler for all these requests"
	case isField && n.Zone != nil && all.Removes(key):
		return "is always empty here: a handler before this one removes it", "the zone before that handler"
	case isCapture && !captured:
		return "is always empty here: no matcher of this name is asked before", "rate_limit into the handle or route that asks the matcher"
	}
	return "", ""
}

// onlyBasicAuth reports whether users are known by basic_auth alone.
func onlyBasicAuth(s *config.Survey) bool {
	return !s.Foreign && len(s.Providers) == 1 && s.Providers["http_basic"]
}

// checkOutcomes finds zones that count answers of earlier handlers only.
func checkOutcomes(s *config.Survey) (found []advice.Advice) {
	for _, p := range s.Places {
		earlier := p.Authenticates()
		for _, z := range p.Zones {
			if earlier != "" && z.Count != nil &&
				(z.Count.Rule().Counts(http.StatusUnauthorized) || z.Count.Rule().Counts(http.StatusForbidden)) {
				found = append(found,
					z.Advice("count: "+earlier+" runs before this handler, so that failed logins don't count",
						beforeAuthentication))
			}
			authenticates := p.Later.Has("http.auth.")
			if z.Count != nil && z.Count.Hold && (authenticates || p.Asks()) && !slices.ContainsFunc(z.MatcherSetsRaw, isNarrow) {
				found = append(found, z.Advice("count: hold counts requests under way, and a browser sends thirty at once beside basic_auth or forward_auth: pages stay incomplete", "count status 401; without hold"))
			}
			if z.Count != nil && !z.Count.Rule().Counts(http.StatusForbidden) && z.Count.Rule().Counts(http.StatusUnauthorized) && !authenticates && earlier == "" && !p.Proxies() && p.Serves() == "file_server" {
				found = append(found, z.Advice("count: nothing behind this handler answers 401: file_server asks for no password", "basic_auth, or rate_limit where the passwords are checked"))
			}
			if z.Count != nil && z.Count.Rule().Counts(http.StatusUnauthorized) && !z.Count.Rule().Counts(http.StatusOK) && slices.ContainsFunc(z.MatcherSetsRaw, func(set caddy.ModuleMap) bool {
				return slices.Contains(routing.NewRequests(set).Paths, "/wp-login.php")
			}) {
				found = append(found, z.Advice("count: WordPress answers a wrong password with 200, and the right one with 302", "count status 200"+map[bool]string{true: " hold"}[z.Count.Hold]))
			}
			if status := hides(p, z.Count); status != 0 {
				found = append(found, z.Advice(fmt.Sprintf("count: where an upstream answers %d, handle_response asks another upstream, and only its answer counts", status), relayed))
			}
		}
	}
	return found
}

// isNarrow reports whether a set matches no folders of pages: other methods than GET, or single paths.
func isNarrow(set caddy.ModuleMap) bool {
	r := routing.NewRequests(set)
	folder := func(path string) bool { return strings.HasSuffix(path, "*") }
	return r.Methods != nil && !slices.Contains(r.Methods, http.MethodGet) || r.Paths != nil && !slices.ContainsFunc(r.Paths, folder)
}

// hides returns a counted status that makes a proxy ask another upstream instead, or 0. It ignores
// responses that are matched by header fields.
func hides(p *config.Place, c *config.Count) int {
	for _, responses := range p.Relayed() {
		if c == nil || len(responses.Headers) > 0 {
			continue
		}
		for status := http.StatusBadRequest; status < 600; status++ {
			if c.Rule().Counts(status) &&
				(caddyhttp.ResponseMatcher{StatusCode: responses.StatusCode}).Match(status, nil) {
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
func checkMentions(s *config.Survey) (found []advice.Advice) {
	for _, name := range slices.Sorted(maps.Keys(s.Mentions)) {
		if problem, fix := s.DoubtfulPlaceholder(name); problem != "" {
			found = append(found, advice.Advice{Problem: problem, Fix: fix, Handler: s.Mentions[name]})
		}
	}
	return found
}
