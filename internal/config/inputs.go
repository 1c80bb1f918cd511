package config

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// writes reports whether clients write a placeholder's value, as far as Caddy's own handlers tell.
func (p *Place) writes(name string) bool { return p.writesBy(name, nil) }

// writesBy leaves out placeholders that were seen: variables may be made of one another.
func (p *Place) writesBy(name string, seen []string) bool {
	if field, isField := strings.CutPrefix(name, "http.request.header."); isField {
		name = "http.request.header." + http.CanonicalHeaderKey(field)
	}
	if slices.Contains(seen, name) {
		return false
	}
	if p.Earlier.Has(name) {
		seen = append(seen, name)
		return slices.ContainsFunc(p.Earlier.Made(name), func(text string) bool {
			return slices.ContainsFunc(routing.PlaceholderNames(text), func(n string) bool {
				return strings.EqualFold(n, name) || p.writesBy(n, seen)
			})
		}) || p.isChosen(name)
	}
	if strings.HasPrefix(name, CertificateFamily) {
		return p.takesAnyCertificate()
	}
	if name == headerFamily+"Content-Length" {
		return false // the server holds it to that
	}
	return name == "http.request.uri" || name == "http.request.orig_uri" ||
		slices.ContainsFunc(sentFamilies, func(family string) bool { return strings.HasPrefix(name, family) })
}

// takesAnyCertificate reports whether the place's server asks clients for certificates and verifies none. The mode
// require verifies none either, whatever it trusts.
func (p *Place) takesAnyCertificate() bool {
	verifies := func(c *caddytls.ClientAuthentication) bool {
		text, _ := json.Marshal(c) // with fields that are deprecated, too
		has := func(field string) bool { return strings.Contains(string(text), `"`+field) }
		return has("verifiers") || has("trusted_leaf") || strings.Contains(c.Mode, "verify") || c.Mode == "" && (has("ca") || has("trusted_ca"))
	}
	asks := false
	for _, policy := range p.View.Server.TLSConnPolicies {
		if c := policy.ClientAuthentication; c != nil && verifies(c) {
			return false
		}
		asks = asks || policy.ClientAuthentication != nil
	}
	return asks
}

// isChosen reports whether clients choose by what they write to what an earlier handler sets a placeholder, because it
// has a matcher of that; or whether it sets a field of the request, which is theirs where it doesn't run.
func (p *Place) isChosen(name string) bool {
	if slices.Contains(p.asked, name) || p.Earlier.Anything {
		return false
	}
	p.asked = append(p.asked, name)
	defer func() { p.asked = p.asked[:len(p.asked)-1] }()
	stranger := p.WitnessStranger(routing.Requests{})
	noted, isField := strings.CutPrefix(name, headerFamily)
	if _, every := stranger.Set(noted); isField && !every && p.Authenticates() == "" { // of users, allow asks for what authenticates them
		return true
	}
	liar := p.WitnessLiar(routing.Requests{}, p.IsWritten)
	honest := stranger.Texts(noted)
	return stranger.Reaches() && slices.ContainsFunc(liar.Texts(noted), func(text string) bool { return !slices.Contains(honest, text) })
}

// Written returns the first of the placeholders in texts whose value clients write, or "".
func (p *Place) Written(texts ...string) string {
	for _, text := range texts {
		for _, name := range routing.PlaceholderNames(text) {
			if p.writes(name) {
				return name
			}
		}
	}
	return ""
}

// sentFamilies are the beginnings of the placeholders that hold what a client sends besides the path.
var sentFamilies = []string{"http.request.header.", "http.request.cookie.", "http.request.uri.query",
	"http.request.uri.prefixed_query", "http.request.orig_uri.query", "http.request.orig_uri.prefixed_query",
	"http.request.body", bodyfield.Form, bodyfield.JSON}

// Inputs are what decides whether a matcher set matches.
type Inputs struct {
	Written string // a placeholder whose value clients write, or ""
	Secret  string // one whose value they have to know, or ""
	peer    bool   // also the address of the sender
	Others  bool   // also something else that clients can't choose
}

// The literals in expressions, what may make one hold though a part of it doesn't, and calls of functions.
var (
	literalsInExpression  = regexp.MustCompile(`["']([^"'{]{16,})["']\s*[^:\s]?`)
	opensExpression       = regexp.MustCompile(`\|\||!`)
	functionsInExpression = regexp.MustCompile(`\b([a-z_]\w*)\s*\(`)
)

// everybodys are matchers of what every request has, and those whose names of placeholders are looked at.
var everybodys = []string{"path", "path_regexp", "endpoint", "method", "host", "protocol", "tls", "query", "file",
	"header", "header_regexp", "vars", "vars_regexp"}

// isEverybodys reports whether every request has a value of a placeholder, whoever sends it.
func isEverybodys(name string) bool {
	begins := func(family string) bool { return strings.HasPrefix(name, family) }
	return slices.ContainsFunc([]string{"http.request.", "http.shutting_down", "http.time_until_shutdown", "time.",
		"system.", "env.", "file."}, begins) &&
		!slices.ContainsFunc([]string{headerFamily, "http.request.remote", CertificateFamily}, begins)
}

// Inputs returns what decides whether a matcher set matches at this place.
func (p *Place) Inputs(set caddy.ModuleMap) (in Inputs) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		p.addInputs(&in, name, set[name])
	}
	return in
}

// IsWritten reports whether clients choose by what they write whether a matcher set matches at this place.
func (p *Place) IsWritten(set caddy.ModuleMap) bool {
	in := p.Inputs(set)
	return in.Written != "" && !in.Others && in.Secret == ""
}

func (p *Place) addInputs(in *Inputs, name string, raw json.RawMessage) {
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
			inner := p.Inputs(set)
			in.add(cmp.Or(inner.Written, inner.Secret), true, false) // whoever doesn't know a secret can leave it out
			in.Others = in.Others || inner.peer || inner.Others
		}
	case "host": // which clients choose where the site names none
		in.Written = cmp.Or(in.Written, p.localHost(raw))
	case "remote_ip", "client_ip":
		if strings.Contains(string(raw), `"0.0.0.0/0"`) {
			return
		}
		in.peer, in.Others = in.peer || name == "remote_ip", true
	default:
		in.Others = in.Others || !slices.Contains(everybodys, name)
	}
}

// localHost returns the placeholder of the host if a matcher takes it for a sign of this machine in a site without a
// host, or "".
func (p *Place) localHost(raw json.RawMessage) string {
	var names []string
	_ = json.Unmarshal(raw, &names)
	isLocal := func(name string) bool {
		address, err := netip.ParseAddr(strings.Trim(name, "[]"))
		return name == "localhost" || err == nil && (address.IsLoopback() || address.IsPrivate())
	}
	if p.Site != "" || slices.ContainsFunc(names, func(name string) bool { return !isLocal(name) }) {
		return ""
	}
	return "http.request.host"
}

// add adds a placeholder. A secret has to be known to write it.
func (in *Inputs) add(name string, written, secret bool) {
	switch {
	case written && !secret:
		in.Written = cmp.Or(in.Written, name)
	case written:
		in.Secret = cmp.Or(in.Secret, name)
	case name != "" && !isEverybodys(name):
		in.Others = true
	}
}

func (p *Place) addExpression(in *Inputs, raw json.RawMessage) {
	var m caddyhttp.MatchExpression
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	names, written := NamesOfSet(caddy.ModuleMap{"expression": raw}), ""
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
	in.Others = in.Others || written == "" && tells || alone && strings.Contains(m.Expr, "client_ip(")
}

// isSecret reports whether a client has to know each of the values to send them in a field.
func isSecret(name string, values any) bool {
	if slices.Contains(publicFields, strings.TrimPrefix(name, "http.request.header.")) ||
		strings.HasPrefix(name, CertificateFamily) && !slices.ContainsFunc(ownersAlone, func(part string) bool { return strings.HasPrefix(name, CertificateFamily+part) }) {
		return false
	}
	switch values := values.(type) {
	case string:
		return strings.Contains(values, "{env.") || strings.Contains(values, "{file.") ||
			len(values) >= minServiceSecret && !strings.ContainsAny(values, `*+?[(|\`)
	case []any:
		return len(values) > 0 && !slices.ContainsFunc(values, func(v any) bool { return !isSecret(name, v) })
	case map[string]any: // of a regular expression
		return isSecret(name, values["pattern"])
	}
	return false
}

// ownersAlone are the placeholders of a certificate that only who has its private key can have.
var ownersAlone = []string{"fingerprint", "public_key", "certificate_"}

// publicFields are header fields whose usual values are known to everybody, however long they are.
var publicFields = []string{"Accept", "Accept-Language", "Content-Type", "From", "Host", "Origin", "Referer",
	"User-Agent"}

// NeverSets reports whether no handler sets a variable, or a placeholder of an answer, of an error or of a
// client's certificate, until the request ends.
func (p *Place) NeverSets(name string) bool {
	switch {
	case strings.HasPrefix(name, "http.error."):
		return !p.InErrors && !p.Anywhere
	case strings.HasPrefix(name, "http.request.tls.client."):
		return !slices.ContainsFunc(p.View.Server.TLSConnPolicies,
			func(c *caddytls.ConnectionPolicy) bool { return c.ClientAuthentication != nil })
	}
	family := slices.ContainsFunc([]string{"http.intercept.", "http.reverse_proxy.", "http.vars."},
		func(f string) bool { return strings.HasPrefix(name, f) })
	return family && !p.Earlier.Anything && !p.Later.Anything && !p.Earlier.Has(name) && !p.Later.Has(name) &&
		!slices.Contains([]string{"http.vars.client_ip", "http.vars.root"}, name)
}

// Judge returns the problem with using a placeholder at this place among handlers, and its fix; ""
// if no problem is known. It is fatal if the use can never work.
func (p *Place) Judge(name string) (problem, write string, fatal bool) {
	field, isField := strings.CutPrefix(name, "http.request.header.")
	if isField {
		field = http.CanonicalHeaderKey(field)
		name = "http.request.header." + field
	}
	isUser := strings.HasPrefix(name, "http.auth.")
	switch {
	case p.Earlier.Has(name):
		return "", "", false
	case isField && len(p.Later.Made(name)) > 0:
		return "is set by a handler that runs later: until then it holds what the client has sent", p.behind(name), false
	case isField && slices.Contains(identityFields, field) && !p.Earlier.Anything:
		return "is what the client has sent, so clients choose who they are", "copy_headers " + field + " in forward_auth; and rate_limit_user, which runs behind it", false
	case isField || p.Earlier.Anything:
		return "", "", false
	case slices.ContainsFunc(answerFamilies, func(family string) bool { return strings.HasPrefix(name, family) }):
		return "is always empty here: no handler before this one has asked for an answer",
			"rate_limit_user if forward_auth sets it, or else a placeholder of the request", false
	case p.Later.Has(name):
		return "is set by a handler that runs later: it is always empty here", p.behind(name), isUser
	case isUser:
		return "is always empty here: nothing before this handler authenticates users", p.withUsers(name), false
	}
	return "", "", false
}

// withUsers returns what to write where nothing before this place knows users.
func (p *Place) withUsers(name string) (write string) {
	if p.Later.Anything {
		return userDirective
	}
	for _, field := range identityFields {
		if field = headerFamily + field; p.Earlier.Has(field) || p.Later.Has(field) {
			return "{" + field + "} in the place of {" + name + "}"
		}
	}
	return "basic_auth in the site, and rate_limit_user in the place of rate_limit; or a placeholder of the request"
}

// ReadsBodies is the problem of a placeholder of the body.
const ReadsBodies = "makes Caddy read 64 KiB of each body; longer ones are one key, cost the whole limit, and match zones but no exemptions"

// answerFamilies are placeholders of the answer, which doesn't exist before a decision.
var answerFamilies = []string{"http.reverse_proxy.", "http.response.", "http.intercept."}

// Authenticates returns an earlier handler that authenticates users, or "".
func (p *Place) Authenticates() string {
	switch {
	case p.Earlier.Has("http.auth."):
		return "basic_auth"
	case p.Earlier.Has("http.reverse_proxy."):
		return "forward_auth"
	}
	return ""
}

// behind returns what to write where a later handler sets a placeholder.
func (p *Place) behind(name string) (write string) {
	if p.KnowsLater(name) {
		return userDirective
	}
	return "the zone behind what sets it: in a rate_limit_user in that handle, or both in a route block in this order"
}

// userDirective is the fix for a zone that depends on the user.
const userDirective = "rate_limit_user in the place of rate_limit; or in route blocks and in JSON, the handler behind the one that sets it"

// UserID is the placeholder of the authenticated user, and UserOfAuth the beginning of what is known of one.
const (
	UserID     = "http.auth.user.id"
	UserOfAuth = "http.auth.user."
)

// identityFields are header fields in which proxies and their authentication services commonly send
// the user's identity. Clients may send them as well.
var identityFields = []string{
	"Cf-Access-Authenticated-User-Email", "Remote-Email", "Remote-Groups", "Remote-Name", "Remote-User",
	"Tailscale-User-Login", "X-Auth-Request-Email", "X-Auth-Request-User", "X-Authentik-Email", "X-Authentik-Username",
	"X-Forwarded-Email", "X-Forwarded-Preferred-Username", "X-Forwarded-User", "X-Goog-Authenticated-User-Email",
	"X-Remote-User", "X-Webauth-User",
}
