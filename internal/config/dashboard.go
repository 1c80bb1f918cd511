package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Dashboard is the configuration of a handler `rate_limit_dashboard`.
type Dashboard struct {
	// Whether users may ban clients, lift bans, allow clients and reset counts. The audit records
	// each such action with the user's name. Default: false, the dashboard is read-only.
	Writable bool `json:"writable,omitempty"`

	// Requests that need no authentication: a list of matcher sets, of which one must match.
	// Default: none. Then a handler before it, such as `basic_auth`, must have authenticated the user. A
	// request that a matcher admits must also be for an IP address, for localhost, or for a host in
	// a matcher of a route or of this option: other sites can point their own names here (DNS
	// rebinding). A header field that clients can send themselves is an error, unless `remote_ip`
	// in the same set restricts its senders, and so is a placeholder that no handler before it sets.
	// A set that reads a placeholder admits no request in which it isn't set.
	AllowRaw caddyhttp.RawMatcherSets `json:"allow,omitempty" caddy:"namespace=http.matchers"`

	// The handler's place in a config file, such as `Caddyfile:12`, for messages. The Caddyfile
	// adapter sets it.
	Source string `json:"source,omitempty"`
}

// Compile checks the configuration, of which whole is the survey. It returns the matchers of allow, and the hosts in
// the matchers of routes and of allow.
func (dash *Dashboard) Compile(ctx caddy.Context, whole *Survey) (allow caddyhttp.MatcherSets,
	hosts caddyhttp.MatchHost, err error) {
	places := dash.Places(whole)
	entries, found, err := dash.checkAllow(whole, places) // before matchers are loaded, which discards their raw JSON
	if err != nil {
		return nil, nil, err
	}
	if err := AdviceOf(ctx).Give(ctx.Logger(), found...); err != nil {
		return nil, nil, err
	}
	if hosts, err = dash.namedHosts(ctx, places); err != nil {
		return nil, nil, err
	}
	allow, err = dash.loadAllow(ctx, entries)
	return allow, hosts, err
}

func (dash *Dashboard) loadAllow(ctx caddy.Context, entries []entry) (allow caddyhttp.MatcherSets, err error) {
	raw := dash.AllowRaw
	if err := matcher.CheckSets(raw); err != nil {
		return nil, err
	}
	if allow, err = loadSets(ctx, dash, "AllowRaw"); err != nil {
		return nil, err
	}
	matcher.ForAdmission(allow)
	for i, e := range entries {
		allow[i] = matcher.IfPresent(e.needs, allow[i])
		for _, p := range e.alone {
			switch {
			case !p.admitsStrangers(raw[i], allow[i]):
			case p.Authenticates() == "":
				return nil, errEverybody
			default:
				allow[i] = matcher.IfPresent([]string{p.provesIdentity()}, allow[i])
			}
		}
	}
	return allow, nil
}

// Places returns the dashboard's places in a config.
func (dash *Dashboard) Places(survey *Survey) (found []*Place) {
	for _, p := range survey.Places {
		if p.Dashboard != nil && routing.SameJSON(p.Dashboard, dash) {
			found = append(found, p)
		}
	}
	return found
}

// namedHosts returns the hosts in the matchers of the dashboard's servers and of allow.
func (dash *Dashboard) namedHosts(ctx caddy.Context, places []*Place) (caddyhttp.MatchHost, error) {
	var names []string
	for _, p := range places {
		names = append(names, p.View.Hosts...)
	}
	names = append(names, routing.Hosts(dash.AllowRaw)...)
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	slices.Sort(names)
	hosts := caddyhttp.MatchHost(slices.Compact(names))
	return hosts, hosts.Provision(ctx)
}

// Unmarshal sets up the dashboard from Caddyfile tokens, with matchers that token reads.
func (dash *Dashboard) Unmarshal(d *caddyfile.Dispenser, token MatcherToken) error {
	for d.Next() {
		dash.Source = caddyconf.Source(d)
		if d.NextArg() {
			return d.Errf("rate_limit_dashboard: got %q: expected a matcher such as /limits/*, or none, and a block: write rate_limit_dashboard {, and %[1]s on a line of its own", d.Val())
		}
		if err := dash.block(token).Read(d); err != nil {
			return fmt.Errorf("rate_limit_dashboard: %w", err)
		}
	}
	return nil
}

func (dash *Dashboard) unmarshalAllow(d *caddyfile.Dispenser, token MatcherToken) error {
	set, err := requiredMatchers(d, token, "rate_limit_dashboard: allow", "allow client_ip 192.0.2.0/24")
	if err != nil {
		return err
	}
	dash.AllowRaw = append(dash.AllowRaw, set)
	return nil
}

// block is the syntax of the directive.
func (dash *Dashboard) block(token MatcherToken) grammar.Block {
	var readOnly bool
	return grammar.Block{
		Check: func() error {
			if readOnly && dash.Writable {
				return errors.New("read_only and writable exclude one another: leave one out")
			}
			return nil
		},
		Rules: func() grammar.Rules {
			return grammar.Rules{
				grammar.Line("read_only", &readOnly),
				grammar.Line("writable", &dash.Writable),
				grammar.Line("allow <matcher...>", withMatchers(dash.unmarshalAllow).by(token)).Repeats(),
			}
		},
	}
}
