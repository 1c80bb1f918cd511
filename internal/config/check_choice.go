package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// addressFields are header fields in which proxies send the client's address, and clients send
// anything.
var addressFields = []string{"X-Forwarded-For", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip", "Forwarded"}

// publicFields are header fields whose usual values are known to everybody, however long they are.
var publicFields = []string{"Accept", "Accept-Language", "Content-Type", "From", "Host", "Origin", "Referer", "User-Agent"}

// signatureFields are header fields in which services sign what they send to a webhook. What is behind an exempt
// path checks them: a liar without the secret gets an error.
var signatureFields = []string{
	"Stripe-Signature", "Webhook-Signature", "X-Hub-Signature-256", "X-Gitea-Signature", "X-Forgejo-Signature", "X-Gitlab-Token",
	"X-Shopify-Hmac-Sha256", "X-Twilio-Signature", "Paypal-Transmission-Sig",
}

// sentFamilies are the beginnings of the placeholders that hold what a client sends besides the path.
var sentFamilies = []string{"http.request.header.", "http.request.cookie.", "http.request.uri.query", "http.request.uri.prefixed_query", "http.request.orig_uri.query", "http.request.orig_uri.prefixed_query", "http.request.body", bodyfield.Form, bodyfield.JSON}

// writes reports whether clients write a placeholder's value, as far as Caddy's own handlers tell.
func (p *place) writes(name string) bool { return p.writesBy(name, nil) }

// writesBy leaves out placeholders that were seen: variables may be made of one another.
func (p *place) writesBy(name string, seen []string) bool {
	if field, isField := strings.CutPrefix(name, "http.request.header."); isField {
		name = "http.request.header." + http.CanonicalHeaderKey(field)
	}
	if slices.Contains(seen, name) {
		return false
	}
	if p.before.Has(name) {
		seen = append(seen, name)
		return slices.ContainsFunc(p.before.Made(name), func(text string) bool {
			return slices.ContainsFunc(routing.PlaceholderNames(text), func(n string) bool {
				return strings.EqualFold(n, name) || p.writesBy(n, seen)
			})
		})
	}
	if name == headerFamily+"Content-Length" {
		return false // the server holds it to that
	}
	return name == "http.request.uri" || name == "http.request.orig_uri" || slices.ContainsFunc(sentFamilies, func(family string) bool { return strings.HasPrefix(name, family) })
}

// written returns the first of the placeholders in texts whose value clients write, or "".
func (p *place) written(texts ...string) string {
	for _, text := range texts {
		for _, name := range routing.PlaceholderNames(text) {
			if p.writes(name) {
				return name
			}
		}
	}
	return ""
}

// inputs are what decides whether a matcher set matches.
type inputs struct {
	written string // a placeholder whose value clients write, or ""
	secret  string // one whose value they have to know, or ""
	peer    bool   // also the address of the sender
	others  bool   // also something else that clients can't choose
}

// The literals in expressions, what may make one hold though a part of it doesn't, and calls of functions.
var (
	literalsInExpression  = regexp.MustCompile(`["']([^"'{]{16,})["']\s*[^:\s]?`)
	opensExpression       = regexp.MustCompile(`\|\||!`)
	functionsInExpression = regexp.MustCompile(`\b([a-z_]\w*)\s*\(`)
)

// everybodys are matchers of what every request has, and those whose names of placeholders are looked at.
var everybodys = []string{"path", "path_regexp", "endpoint", "method", "host", "protocol", "tls", "query", "file", "header", "header_regexp", "vars", "vars_regexp"}

// isEverybodys reports whether every request has a value of a placeholder, whoever sends it.
func isEverybodys(name string) bool {
	begins := func(family string) bool { return strings.HasPrefix(name, family) }
	return slices.ContainsFunc([]string{"http.request.", "http.shutting_down", "http.time_until_shutdown", "time.", "system.", "env.", "file."}, begins) &&
		!slices.ContainsFunc([]string{headerFamily, "http.request.remote", certificateFamily}, begins)
}

// inputs returns what decides whether a matcher set matches at this place.
func (p *place) inputs(set caddy.ModuleMap) (in inputs) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		p.addInputs(&in, name, set[name])
	}
	return in
}

func (p *place) addInputs(in *inputs, name string, raw json.RawMessage) {
	switch name {
	case "header", "header_regexp", "vars", "vars_regexp":
		var fields map[string]any
		_ = json.Unmarshal(raw, &fields) // loading reports any error, here and below
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			n := "http.request.header." + http.CanonicalHeaderKey(field)
			if strings.HasPrefix(name, "vars") {
				n = cmp.Or(strings.Join(routing.PlaceholderNames(field), ""), "http.vars."+field)
			}
			in.add(n, p.writes(n), isSecret(n, fields[field]))
		}
	case "query":
		in.add("http.request.uri.query", true, false)
	case "expression":
		p.addExpression(in, raw)
	case "not":
		for _, set := range negated(caddy.ModuleMap{name: raw}) {
			inner := p.inputs(set)
			in.add(cmp.Or(inner.written, inner.secret), true, false) // whoever doesn't know a secret can leave it out
			in.others = in.others || inner.peer || inner.others
		}
	case "remote_ip", "client_ip":
		if isCatchAll(name, raw) {
			return
		}
		in.peer, in.others = in.peer || name == "remote_ip", true
	default:
		in.others = in.others || !slices.Contains(everybodys, name)
	}
}

// add adds a placeholder. A secret has to be known to write it.
func (in *inputs) add(name string, written, secret bool) {
	switch {
	case written && !secret:
		in.written = cmp.Or(in.written, name)
	case written:
		in.secret = cmp.Or(in.secret, name)
	case name != "" && !isEverybodys(name):
		in.others = true
	}
}

func (p *place) addExpression(in *inputs, raw json.RawMessage) {
	var m caddyhttp.MatchExpression
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	names, written := namesOfSet(caddy.ModuleMap{"expression": raw}), ""
	tells := slices.ContainsFunc(names, func(name string) bool { return !p.writes(name) && !isEverybodys(name) })
	if i := slices.IndexFunc(names, p.writes); i >= 0 {
		written = names[i]
	}
	for _, found := range functionsInExpression.FindAllStringSubmatch(m.Expr, -1) {
		_, err := caddy.GetModule("http.matchers." + found[1])
		tells = tells || err == nil && !slices.Contains(everybodys, found[1])
		if found[1] == "query" {
			written = cmp.Or(written, "http.request.uri.query")
		}
	}
	secret := slices.ContainsFunc(literalsInExpression.FindAllStringSubmatch(m.Expr, -1), func(found []string) bool {
		return isSecret(written, found[1])
	})
	in.add(written, written != "", secret)
	alone := !opensExpression.MatchString(m.Expr)
	in.peer = in.peer || alone && strings.Contains(m.Expr, "remote_ip(")
	in.others = in.others || written == "" && tells || alone && strings.Contains(m.Expr, "client_ip(")
}

// isSecret reports whether a client has to know each of the values to send them in a field.
func isSecret(name string, values any) bool {
	if slices.Contains(publicFields, strings.TrimPrefix(name, "http.request.header.")) {
		return false
	}
	switch values := values.(type) {
	case string:
		return strings.Contains(values, "{env.") || strings.Contains(values, "{file.") || len(values) >= minServiceSecret && !strings.ContainsAny(values, `*+?[(|\`)
	case []any:
		return len(values) > 0 && !slices.ContainsFunc(values, func(v any) bool { return !isSecret(name, v) })
	case map[string]any: // of a regular expression
		return isSecret(name, values["pattern"])
	}
	return false
}

// checkChoice asks whether clients can choose what an option reads.
func checkChoice(s *survey) (found []Advice) {
	for _, p := range s.places {
		if p.handler == nil {
			continue
		}
		found = append(found, s.checkPlainHTTP(p)...)
		if p.before.Anything {
			continue
		}
		for _, o := range p.sets() {
			set, option := o.ModuleMap, o.option
			switch {
			case option == "match" && set["not"] != nil:
				set, option = caddy.ModuleMap{"not": set["not"]}, "match not"
			case option == "cost" && o.cost == "0":
				option = "cost 0"
			case option != "exempt":
				continue
			}
			if in := p.inputs(set); in.written != "" && !in.others && in.secret == "" && !(option == "exempt" && isSignedWebhook(set)) {
				found = append(found, o.advice(fmt.Sprintf("%s: {%s} is what the client writes: whoever sends it is not limited", option, in.written), safer(in.written)))
			}
		}
		for _, z := range p.zones {
			found = append(found, p.checkZoneChoice(z)...)
		}
	}
	return found
}

// isSignedWebhook reports whether a set consists of an endpoint and fields with a service's signature.
func isSignedWebhook(set caddy.ModuleMap) bool {
	var fields map[string]any
	if len(set) != 2 || set["endpoint"] == nil || json.Unmarshal(set["header"], &fields) != nil {
		return false
	}
	for field := range fields {
		if !slices.ContainsFunc(signatureFields, func(f string) bool { return strings.EqualFold(f, field) }) {
			return false
		}
	}
	return len(fields) > 0
}

// safer returns what clients can't choose, for an exemption.
func safer(name string) string {
	if name == "http.request.header.User-Agent" {
		return "exempt verified_bot google bing"
	}
	return "a tier with unlimited and service_header; or exempt with an address"
}

func (p *place) checkZoneChoice(z *Zone) (found []Advice) {
	give := func(name, option, problem, fix string) {
		if name != "" {
			found = append(found, z.advice(fmt.Sprintf("%s: {%s} is what the client %s", option, name, problem), fix))
		}
	}
	if z.MaxCost == 0 {
		give(p.written(z.costs()...), "cost", "writes, and nothing bounds it", "max_cost 100 beside it, or a cost of your own")
	}
	if name, last := p.surcharge(z); name != "" {
		give(name, "cost", fmt.Sprintf("writes: without it a request costs %d", last), "the highest cost last, and lower ones above it with matchers for what is cheap")
	}
	give(p.written(z.Settle), "settle", "writes: it writes 0 and gets everything back", "settle with what the upstream says, such as {http.response.header.X-Tokens}")
	give(p.identity(z.Tier), "tier", "writes: it chooses its limits", "tiers with api_keys, or a service_header in the tier")
	if z.Per == "" || z.Per == enforce.PerKey {
		name := p.written(z.Key)
		field, _ := strings.CutPrefix(name, "http.request.header.")
		switch {
		case slices.ContainsFunc(addressFields, func(f string) bool { return strings.EqualFold(f, field) }):
			give(name, "key", "sends: it gets another limit with every other value that it makes up", "per ip, and trusted_proxies in the global option servers")
		case strings.Contains(name, "uri"):
			give(name, "key", "sends: it gets another limit with every ?x=1 that it adds", "key {http.request.uri.path} with a second zone per ip, or per ip alone")
		case p.authenticates() == "" && !p.isBounded(z):
			give(p.identity(z.Key), "key", "sends: it gets another limit with every value that it guesses", "a second zone per ip beside it; or per api_key, with api_keys")
		}
	}
	return found
}

// surcharge returns what clients write in the matchers of a cost above the last one, which holds if they leave it out;
// or "".
func (p *place) surcharge(z *Zone) (name string, last int64) {
	rule, err := newCostRule(z.Cost)
	for _, c := range z.Costs {
		if higher, failed := newCostRule(c.Cost); err != nil || failed != nil || rule.From != "" || higher.Fixed <= rule.Fixed {
			continue
		}
		for _, set := range c.MatcherSetsRaw {
			if in := p.inputs(set); set["not"] == nil && enforce.MayHaveSeveral(in.written) {
				return in.written, rule.Fixed
			}
		}
	}
	return "", 0
}

// identity returns [place.written] of a text, without what another check tells.
func (p *place) identity(text string) string {
	name := p.written(text)
	if problem, _, _ := p.judge(name); problem != "" {
		return ""
	}
	return name
}

// isBounded reports whether another zone bounds what one client uses of a zone, whatever it sends.
func (p *place) isBounded(z *Zone) bool {
	return slices.ContainsFunc(p.zones, func(other *Zone) bool {
		return other != z && !other.wantsShadow() && (len(other.MatcherSetsRaw) == 0 || routing.SameJSON(other.MatcherSetsRaw, z.MatcherSetsRaw)) &&
			(other.Key == "" && !other.isPeerForm() || other.Key != "" && p.written(other.Key) == "")
	})
}

// identityFields are header fields in which proxies and their authentication services commonly send
// the user's identity. Clients may send them as well.
var identityFields = []string{
	"Cf-Access-Authenticated-User-Email", "Remote-Email", "Remote-Groups", "Remote-Name", "Remote-User",
	"Tailscale-User-Login", "X-Auth-Request-Email", "X-Auth-Request-User", "X-Authentik-Email", "X-Authentik-Username",
	"X-Forwarded-Email", "X-Forwarded-Preferred-Username", "X-Forwarded-User", "X-Goog-Authenticated-User-Email",
	"X-Remote-User", "X-Webauth-User",
}

// checkPlainHTTP finds sessions and traps on servers that speak plain HTTP.
func (s *survey) checkPlainHTTP(p *place) (found []Advice) {
	if len(p.view.Server.TLSConnPolicies) > 0 {
		return nil
	}
	if s.app.Session != nil {
		found = append(found, Advice{Server: p.view.Server.Listen, Problem: "sessions over plain HTTP can be read and taken over on the way; use HTTPS, here or at a proxy in front"})
	}
	if i := slices.IndexFunc(p.handler.Traps, func(t *Trap) bool { return t.Ban != 0 || s.app.Ban != nil }); i >= 0 {
		found = append(found, Advice{Source: p.handler.Traps[i].Source, Problem: "trap: over plain HTTP browsers don't say that a page of another site leads them into a trap, so it can have its visitors banned",
			Fix: "an https:// site, here or at a proxy in front; or a trap without a ban"})
	}
	return found
}
