package tally

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/lint"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// Handler limits the number of a client's requests. It counts requests in named zones, keeps the
// counts in an embedded database, so that they survive reloads, restarts and crashes, and refuses
// requests above a limit with status 429 and a Retry-After header field.
//
// A request that belongs to several zones of a handler must be within the limits of all of them; a
// refused request uses up nothing in any of them. Put related zones into one handler: units that a
// request has used up in one handler stay used when another one refuses it.
//
// In a Caddyfile the directive `rate_limit` runs before authentication, and `rate_limit_user` after
// it, for zones that depend on the user. Both are this handler.
//
// The `rate_limit` app configures the store of the counts. It is optional: all its options have
// defaults. Configs for `mholt/caddy-ratelimit` are accepted unchanged.
type Handler struct {
	config.Handler

	run *enforce.Handler
}

// Provision checks the configuration and gets the handler ready. It opens
// nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	app, err := ctx.App(names.App)
	if err != nil {
		return fmt.Errorf("getting rate_limit app: %w", err)
	}
	compiler := app.(*App).compiler
	if err := lint.Config(ctx, compiler); err != nil {
		return caddyconf.AtSource(err, h.Source)
	}
	if h.run, err = compiler.Handler(ctx, &h.Handler); err != nil {
		return err
	}
	survey, _ := compiler.Survey(ctx)
	return lint.Handler(ctx, compiler, survey, &h.Handler, h.run)
}

// ServeHTTP passes a request that is within all limits, and refuses others.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return h.run.ServeHTTP(w, r, next)
}

// Enforcer returns the part of the handler that decides about requests.
func (h *Handler) Enforcer() *enforce.Handler { return h.run }

// Cleanup undoes Provision.
func (h *Handler) Cleanup() error {
	if h.run != nil {
		h.run.Cleanup()
	}
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)

// The interfaces of modules that this one loads.
type (
	// Store keeps counts. Its namespace is `rate_limit.stores`.
	Store = stores.Store
	// FileStore keeps counts in files on this machine.
	FileStore = stores.File
	// NetworkStore keeps counts on a server, for several machines together.
	NetworkStore = stores.Network
	// Exchange shares counts between regions. Its namespace is `rate_limit.exchanges`.
	Exchange = config.Exchange
)
