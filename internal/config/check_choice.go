package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// addressFields are header fields in which proxies send the client's address, and clients send
// anything.
var addressFields = []string{"X-Forwarded-For", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip", "Forwarded"}

// asSent are placeholders for which a client can invent any number of values that are equivalent to
// a backend.
var asSent = []string{
	"http.request.uri", "http.request.uri.query", "http.request.uri.prefixed_query", "http.request.orig_uri",
	"http.request.orig_uri.query",
}

// checkDoubtfulKey finds a key that is doubtful but may be intended.
func (z *zoneCompiler) checkDoubtfulKey() []Advice {
	for _, name := range routing.PlaceholderNames(z.Key) {
		field, isField := strings.CutPrefix(name, "http.request.header.")
		switch {
		case slices.Contains(asSent, name):
			return []Advice{z.advice(fmt.Sprintf("key: {%s} is what the client sends: it gets another limit with every ?x=1 that it adds", name),
				"key {http.request.uri.path} with a second zone per ip, or per ip alone")}
		case isField && slices.ContainsFunc(addressFields, func(f string) bool { return strings.EqualFold(f, field) }):
			return []Advice{z.advice(fmt.Sprintf("key: {%s} is what the client sends: it gets another limit with every other value that it makes up", name),
				"per ip, and trusted_proxies in the global option servers")}
		}
	}
	if z.Per == enforce.PerKey && len(routing.PlaceholderNames(z.Key)) == 0 {
		return []Advice{z.advice(fmt.Sprintf("key: %q has no placeholder in it: everybody shares one count", z.Key), "per everyone")}
	}
	return nil
}

// identityFields are header fields in which proxies and their authentication services commonly send
// the user's identity. Clients may send them as well.
var identityFields = []string{
	"Cf-Access-Authenticated-User-Email", "Remote-Email", "Remote-Groups", "Remote-Name", "Remote-User",
	"Tailscale-User-Login", "X-Auth-Request-Email", "X-Auth-Request-User", "X-Authentik-Email", "X-Authentik-Username",
	"X-Forwarded-Email", "X-Forwarded-Preferred-Username", "X-Forwarded-User", "X-Goog-Authenticated-User-Email",
	"X-Remote-User", "X-Webauth-User",
}

// checkAllow returns an error if a matcher of allow uses a header field that clients can send
// themselves. A matcher of the sender's address in the same set makes the field safe.
func (dash *Dashboard) checkAllow(survey *survey, places []*place) error {
	for _, set := range dash.AllowRaw {
		if survey.readsBody(needsOfMatchers(nil, "allow", set)) {
			return errors.New("a placeholder of the body is what the client sends: write allow client_ip 192.0.2.0/24, with the networks of the operators")
		}
		if set["remote_ip"] != nil {
			continue
		}
		for _, p := range places {
			if err := p.checkFields(set); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFields returns an error if clients can send a header field that a matcher set uses.
func (p *place) checkFields(set caddy.ModuleMap) error {
	for _, n := range needsOfMatchers(nil, "allow", set) {
		field, isField := strings.CutPrefix(n.name, "http.request.header.")
		problem, _, _ := p.judge(n.name)
		if problem == "" && isAnyValue(set, field) && !p.before.Anything && !p.before.Has("http.request.header."+http.CanonicalHeaderKey(field)) {
			problem = "may have any value, and is what the client has sent: nothing before this handler sets or removes it"
		}
		if isField && problem != "" {
			return fmt.Errorf("{%s} %s: put forward_auth with copy_headers %s before the dashboard; or, if a proxy in front of Caddy sets the field, also match its address: allow {, and in it header %[3]s * and remote_ip with the address", n.name, problem, field)
		}
	}
	return nil
}

// isAnyValue reports whether a matcher set accepts any value of a header field.
func isAnyValue(set caddy.ModuleMap, field string) bool {
	var fields map[string][]string
	return json.Unmarshal(set["header"], &fields) == nil && slices.Contains(fields[field], "*")
}

// checkPlainHTTP finds sessions and traps on servers that speak plain HTTP.
func checkPlainHTTP(s *survey) (found []Advice) {
	session := s.app.Session != nil
	for _, p := range s.places {
		if p.handler == nil || len(p.view.Server.TLSConnPolicies) > 0 {
			continue
		}
		if session {
			session = false // once is enough
			found = append(found, Advice{Problem: "sessions over plain HTTP can be read and taken over on the way; use HTTPS, here or at a proxy in front"})
		}
		for _, t := range p.handler.Traps {
			if t.Ban != 0 || s.app.Ban != nil {
				found = append(found, Advice{Source: t.Source, Problem: "trap: over plain HTTP browsers don't say that a page of another site leads them into a trap, so it can have its visitors banned",
					Fix: "an https:// site, here or at a proxy in front; or a trap without a ban"})
				break
			}
		}
	}
	return found
}
