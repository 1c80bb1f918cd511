package tally

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/lint"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/report"
)

// Dashboard shows the state of this Caddy's rate limiter to authenticated users: passing and
// refused requests, blocked clients and the reasons, the history, and operators' actions. It
// answers others with status 403.
//
// It works below any path, if its first page ends with a slash: see `handle_path`.
type Dashboard struct {
	config.Dashboard

	allow  caddyhttp.MatcherSets
	hosts  caddyhttp.MatchHost // in the matchers of routes or allow
	served http.Handler
	log    *zap.Logger
	answer answer.Options
	open   context.Context // until the server of the dashboard shuts down
}

func init() {
	caddy.RegisterModule(new(Dashboard))
}

// CaddyModule returns the Caddy module information.
func (*Dashboard) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.rate_limit_dashboard",
		New: func() caddy.Module { return new(Dashboard) }}
}

// looks counts the looks of users at addresses, on all dashboards and over reloads.
var looks dashboard.Looks

// Provision implements caddy.Provisioner.
func (dash *Dashboard) Provision(ctx caddy.Context) error {
	dash.log, dash.answer.Routed = ctx.Logger(), answer.ErrorRouted(ctx)
	open, end := context.WithCancel(ctx)
	dash.open = open
	enforce.OnShutdown(ctx, end)
	whole := config.NewSurvey(ctx, nil, nil)
	err := lint.Dashboard(ctx, whole, &dash.Dashboard)
	if err != nil {
		return caddyconf.AtSource(fmt.Errorf("rate_limit_dashboard: %w", err), dash.Source)
	}
	if dash.allow, dash.hosts, err = dash.Compile(ctx, whole); err != nil {
		return caddyconf.AtSource(fmt.Errorf("rate_limit_dashboard: allow: %w", err), dash.Source)
	}
	dash.served = dashboard.New(dashboard.Options{
		Service: runningService(), Writable: dash.Writable, User: dashboardUser, Address: clientAddress, Looks: &looks,
		Report: func(err error) { dash.log.Error("the dashboard can't answer", zap.Error(err)) },
	})
	return nil
}

// ServeHTTP answers with a page, or with 403 for unauthorized requests.
func (dash *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	answer.ForOneClient(w)
	if err := dash.permits(r); err != nil {
		dash.log.Debug("the dashboard refuses a request", zap.Error(err))
		return dash.answer.Reject(w, r, err)
	}
	if name, ok := needsSlash(r); ok {
		w = answer.Own(w)
		w.Header().Set("Location", "./"+url.PathEscape(name)+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
		_, err := w.Write([]byte(http.StatusText(http.StatusPermanentRedirect) + "\n"))
		return err
	}
	report.Withdraw(r)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(dash.open, cancel)() // live updates delay neither a stop nor a reload
	dash.served.ServeHTTP(answer.Own(w), r.WithContext(ctx))
	return nil
}

// authenticatedUser returns the user that an earlier handler has authenticated, or "".
func authenticatedUser(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := repl.GetString("http.auth.user.id")
	return user
}

// otherActors are the audit's names of actors other than users.
var otherActors = []string{"admin", "config", "dashboard", "rules", "conduct"}

// maxUser is the most bytes of a user's name in the audit.
const maxUser = 100

// dashboardUser returns the audit's name of a request's user.
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

// clientAddress returns the address of a request's client. The zero address is unknown.
func clientAddress(r *http.Request) (addr netip.Addr) {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	addr, _ = netip.ParseAddr(text)
	return addr.WithZone("")
}

// needsSlash reports whether a request is for the first page with a URL that relative links don't
// work with. The name is that URL's last segment.
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
	// after rate_limit_user
	httpcaddyfile.RegisterDirectiveOrder("rate_limit_dashboard", httpcaddyfile.Before, "request_header")
}

// parseDashboard sets up the dashboard from the directive. Named matchers are known only
// here.
func parseDashboard(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	d := new(Dashboard)
	return d, d.Unmarshal(helper.Dispenser, helper.MatcherToken)
}

// UnmarshalCaddyfile sets up the dashboard from Caddyfile tokens. Syntax:
//
//	rate_limit_dashboard [<matcher>] {
//		read_only
//		writable
//		allow <matcher...>
//	}
func (dash *Dashboard) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return dash.Unmarshal(d, unnamedMatchers(d))
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Dashboard)(nil)

// errStrangeHost refuses a request that another site may have caused a visitor's browser to send: a
// page can point a name of its own at this server's address (DNS rebinding). Such a request comes
// from the address of an authorized user, and the page can read the answer.
var errStrangeHost = errors.New("rate_limit_dashboard: allow lets the request in, but its host is none that a route matches, no address and not localhost: " +
	"write the host as the address of the site, or with the matchers of allow: host dashboard.lan")

// permits returns an error if a request may not see the dashboard.
func (dash *Dashboard) permits(r *http.Request) error {
	if authenticatedUser(r) != "" {
		return nil
	}
	matches := false
	if len(dash.allow) > 0 {
		var err error
		if matches, err = dash.allow.AnyMatchWithError(r); err != nil {
			return err
		}
	}
	switch {
	case !matches && matcher.IsEarly(r):
		return caddyhttp.Error(http.StatusTooEarly,
			errors.New("rate_limit_dashboard: the address may be forged until the handshake is complete"))
	case !matches && matcher.IsClaimed(r):
		return caddyhttp.Error(http.StatusForbidden,
			errors.New("rate_limit_dashboard: the client may have written its address itself, so allow doesn't let it in: write "+enforce.StrictProxies))
	case !matches && matcher.IsRelayed(r):
		return caddyhttp.Error(http.StatusForbidden,
			errors.New("rate_limit_dashboard: the address is that of a proxy, for another one in X-Forwarded-For, so allow doesn't let it in: write trusted_proxies static with the proxy's address, and trusted_proxies_strict"))
	case !matches:
		return caddyhttp.Error(http.StatusForbidden,
			errors.New(
				"rate_limit_dashboard: the request is of no authenticated user, and no matcher of allow matches"))
	case !isOfThisMachine(r.Host) && !dash.hosts.Match(r):
		return caddyhttp.Error(http.StatusMisdirectedRequest, errStrangeHost)
	}
	return nil
}

// isOfThisMachine reports whether a Host field is an address or localhost, which other sites can't
// redirect.
func isOfThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
}
