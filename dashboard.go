package tally

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routes"
)

// Dashboard shows what the rate limiter of this Caddy does, to people who have been
// authenticated: what passes and what is refused, who is blocked and why, history, and what
// operators did. It answers everybody else with status 403.
//
// It works below any path, if its first page ends with a slash: see `handle_path`.
type Dashboard struct {
	// Whether people may ban clients, lift bans, let clients in and set counts to zero. Each
	// such order is noted in the audit with the user's name. Default: false, the dashboard
	// reads only.
	Writable bool `json:"writable,omitempty"`

	// Who may see it without being authenticated: a list of matcher sets, of which one must
	// match. Default: nobody. `{http.auth.user.id}` must not be empty then, as behind
	// `basic_auth`. Whoever is let in by a matcher must also ask for a host that a matcher of a
	// route or of this option names, for an address, or for localhost: other sites can point
	// their own names here (DNS rebinding). A header field that clients can send as they like is
	// an error, unless `remote_ip` in the same set says from where.
	AllowRaw caddyhttp.RawMatcherSets `json:"allow,omitempty" caddy:"namespace=http.matchers"`

	// Where the handler stands in a config file, such as `Caddyfile:12`, for messages. The
	// Caddyfile adapter notes it.
	Source string `json:"source,omitempty"`

	allow  caddyhttp.MatcherSets
	hosts  caddyhttp.MatchHost // that routes or allow match
	ctx    caddy.Context
	served http.Handler
}

func init() {
	caddy.RegisterModule(new(Dashboard))
}

// CaddyModule returns the Caddy module information.
func (*Dashboard) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.rate_limit_dashboard",
		New: func() caddy.Module { return new(Dashboard) },
	}
}

// dashboardKey seals what pages hold, as long as this process lives: pages that are open
// survive a reload.
var dashboardKey = sync.OnceValue(func() []byte {
	key := make([]byte, dashboard.KeySize)
	_, _ = rand.Read(key) // never fails
	return key
})

// Provision implements caddy.Provisioner.
func (d *Dashboard) Provision(ctx caddy.Context) error {
	d.ctx = ctx
	log := ctx.Logger()
	survey := newSurvey(ctx, nil)
	places := d.places(survey)
	d.warnIfShut(places, log)
	err := d.checkAllow(places) // before matchers are loaded, and their texts given up
	if err == nil {
		d.hosts, err = d.namedHosts(ctx, survey, places)
	}
	if err == nil {
		err = d.loadAllow(ctx)
	}
	if err != nil {
		return caddyconf.AtSource(fmt.Errorf("rate_limit_dashboard: allow: %w", err), d.Source)
	}
	served, err := dashboard.New(dashboard.Options{
		Service: runningService(), Writable: d.Writable, User: dashboardUser, Key: dashboardKey(),
		Report: func(err error) { log.Error("the dashboard can't answer", zap.Error(err)) },
	})
	d.served = served
	return err
}

func (d *Dashboard) loadAllow(ctx caddy.Context) error {
	if err := matcher.CheckSets(d.AllowRaw); err != nil {
		return err
	}
	loaded, err := ctx.LoadModule(d, "AllowRaw")
	if err != nil {
		return err
	}
	if err := d.allow.FromInterface(loaded); err != nil {
		return err
	}
	matcher.ForExemption(d.allow)
	return nil
}

const userID = "http.auth.user.id"

// warnIfShut warns if nobody can ever get in.
func (d *Dashboard) warnIfShut(places []*place, log *zap.Logger) {
	shut := func(p *place) bool {
		return len(d.AllowRaw) == 0 && !p.before.Anything && !p.before.Has(userID)
	}
	if slices.ContainsFunc(places, shut) {
		Advice{Source: d.Source, Problem: "rate_limit_dashboard: everybody is answered with 403: nothing before this handler authenticates users",
			Fix: "basic_auth before it, for the same paths; or allow with a matcher"}.log(log)
	}
}

// ServeHTTP answers with a page, or with 403 for anyone who may not see it.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if err := d.permits(r); err != nil {
		return err
	}
	if name, ok := needsSlash(r); ok {
		w.Header().Set("Location", "./"+url.PathEscape(name)+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)() // live updates don't hold up a reload
	d.served.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

// authenticatedUser returns who a handler before this one has found the request to be from,
// or "".
func authenticatedUser(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := repl.GetString(userID)
	return user
}

// otherActors are what the audit calls those that aren't users.
var otherActors = []string{"admin", "config", "dashboard", "rules", "conduct"}

// maxUser is how many bytes of a user's name are noted.
const maxUser = 100

// dashboardUser returns what the audit calls who a request is from.
func dashboardUser(r *http.Request) string {
	user := authenticatedUser(r)
	switch {
	case user == "":
		return "dashboard"
	case slices.Contains(otherActors, user):
		return "user " + user
	case len(user) > maxUser:
		user = strings.ToValidUTF8(user[:maxUser], "") + "…"
	}
	return user
}

// needsSlash reports whether a request is for the first page, at an address to which relative
// links can't be added. The name is that address's last segment.
func needsSlash(r *http.Request) (name string, ok bool) {
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || original.URL == nil || strings.Trim(r.URL.Path, "/") != "" || strings.HasSuffix(original.URL.Path, "/") {
		return "", false
	}
	name = original.URL.Path[strings.LastIndexByte(original.URL.Path, '/')+1:]
	return name, name != ""
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Dashboard)(nil)
	_ caddyhttp.MiddlewareHandler = (*Dashboard)(nil)
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("rate_limit_dashboard", parseDashboard)
	httpcaddyfile.RegisterDirectiveOrder("rate_limit_dashboard", httpcaddyfile.Before, "request_header") // behind rate_limit_user
}

// parseDashboard sets up the dashboard from the directive. Named matchers are known only
// here.
func parseDashboard(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	d := new(Dashboard)
	return d, d.unmarshal(helper.Dispenser, helper.MatcherToken)
}

// UnmarshalCaddyfile sets up the dashboard from Caddyfile tokens. Syntax:
//
//	rate_limit_dashboard [<matcher>] {
//		read_only
//		writable
//		allow <matcher>, as for match
//	}
func (db *Dashboard) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return db.unmarshal(d, unnamedMatchers(d))
}

func (db *Dashboard) unmarshal(d *caddyfile.Dispenser, token matcherToken) error {
	var mode string
	for d.Next() {
		db.Source = caddyconf.Source(d)
		if d.NextArg() {
			return d.Errf("rate_limit_dashboard: got %q: expected a matcher such as /limits/*, or none, and a block: write rate_limit_dashboard {, and %[1]s on a line of its own", d.Val())
		}
		for nesting := d.Nesting(); d.NextBlock(nesting); {
			if err := db.unmarshalOption(d, token, &mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// unmarshalOption reads one line or block. mode is what was said of changes before.
func (db *Dashboard) unmarshalOption(d *caddyfile.Dispenser, token matcherToken, mode *string) error {
	switch word := d.Val(); word {
	case "read_only", "writable":
		if d.NextArg() {
			return d.Errf("rate_limit_dashboard: %s: expected nothing behind it, got %q", word, d.Val())
		}
		if *mode != "" {
			return d.Errf("rate_limit_dashboard: got %s after %s: expected one of read_only and writable", word, *mode)
		}
		*mode, db.Writable = word, word == "writable"
		return nil
	case "allow":
		return db.unmarshalAllow(d, token)
	default:
		return d.Errf("rate_limit_dashboard: unrecognized option %q: expected read_only, writable or allow", word)
	}
}

func (db *Dashboard) unmarshalAllow(d *caddyfile.Dispenser, token matcherToken) error {
	set, err := unmarshalMatchers(d, token)
	if err != nil {
		return caddyconf.InLine(d, "rate_limit_dashboard: allow", err)
	}
	if len(set) == 0 {
		return d.Err("rate_limit_dashboard: allow: a matcher is missing: write allow client_ip 192.0.2.0/24")
	}
	db.AllowRaw = append(db.AllowRaw, set)
	return nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Dashboard)(nil)

// The next functions find out who a dashboard lets in that nobody has authenticated.

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
