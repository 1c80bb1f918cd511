package tally

// This file finds out who a dashboard lets in that nobody has authenticated.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/routes"
)

// places returns where the dashboard is in a config.
func (d *Dashboard) places(survey *survey) (found []*place) {
	for _, p := range survey.places {
		if p.dashboard != nil && routes.SameJSON(p.dashboard, d) {
			found = append(found, p)
		}
	}
	return found
}

// checkAllow returns an error if a matcher of allow looks at a header field that clients can send
// as they like. Where the matcher also says from which address, only that can send it.
func (d *Dashboard) checkAllow(places []*place) error {
	for _, set := range d.AllowRaw {
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

// checkFields returns an error if clients can send a header field that a matcher set looks at.
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

// isAnyValue reports whether a matcher set takes a header field with any value.
func isAnyValue(set caddy.ModuleMap, field string) bool {
	var fields map[string][]string
	return json.Unmarshal(set["header"], &fields) == nil && slices.Contains(fields[field], "*")
}

// errStrangeHost refuses a request that another site may have made a visitor's browser send: its
// page can point a name of its own at this server's address (DNS rebinding). Then the request has
// the address of somebody who may see the dashboard, and the page reads the answer.
var errStrangeHost = errors.New("rate_limit_dashboard: allow lets the request in, but its host is none that a route matches, no address and not localhost: " +
	"write the host as the address of the site, or with the matchers of allow: host dashboard.lan")

// permits returns an error if a request is of nobody who may see the dashboard.
func (d *Dashboard) permits(r *http.Request) error {
	if authenticatedUser(r) != "" {
		return nil
	}
	matches := false
	if len(d.allow) > 0 {
		var err error
		if matches, err = d.allow.AnyMatchWithError(r); err != nil {
			return err
		}
	}
	switch {
	case !matches:
		return caddyhttp.Error(http.StatusForbidden, errors.New("rate_limit_dashboard: the request is of no authenticated user, and no matcher of allow matches"))
	case !isOfThisMachine(r.Host) && !d.hosts.Match(r):
		return caddyhttp.Error(http.StatusMisdirectedRequest, errStrangeHost)
	}
	return nil
}

// isOfThisMachine reports whether a Host field is an address or localhost, which nobody else can
// point anywhere.
func isOfThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// namedHosts returns the hosts that matchers name in the servers of the dashboard, or in allow.
func (d *Dashboard) namedHosts(ctx caddy.Context, survey *survey, places []*place) (caddyhttp.MatchHost, error) {
	var names []string
	for _, p := range places {
		names = append(names, survey.hosts[p.server]...)
	}
	names = append(names, routes.Hosts(&caddyhttp.Route{MatcherSetsRaw: d.AllowRaw})...)
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	slices.Sort(names)
	hosts := caddyhttp.MatchHost(slices.Compact(names))
	return hosts, hosts.Provision(ctx)
}
