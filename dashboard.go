package tally

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
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
