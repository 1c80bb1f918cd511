package tally

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// Admin serves the operators' view and actions on Caddy's admin endpoint, below /rate_limit/.
//
// GET /rate_limit/ returns an array with an object for each store: its health, and any problem of
// the file of API keys. It contains nothing about clients. docs/admin-api.md describes the other
// endpoints.
type Admin struct {
	ctx caddy.Context // of the configuration that owns the admin endpoint
}

func init() {
	caddy.RegisterModule(new(Admin))
}

// CaddyModule returns the Caddy module information.
func (*Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.rate_limit", New: func() caddy.Module { return new(Admin) }}
}

// Routes implements caddy.AdminRouter.
func (a *Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: operator.Root + "{$}", Handler: caddy.AdminHandlerFunc(serveHealth)},
		{Pattern: operator.Root, Handler: a.untilReload(operator.NewHandler(runningService()))},
	}
}

// Provision implements caddy.Provisioner.
func (a *Admin) Provision(ctx caddy.Context) error {
	a.ctx = ctx
	return nil
}

// untilReload ends requests when another configuration replaces the one that owns their admin
// endpoint. Caddy waits for them then.
func (a *Admin) untilReload(next http.Handler) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if a.ctx.Context != nil {
			defer context.AfterFunc(a.ctx, cancel)()
		}
		awaitConfig(ctx)
		next.ServeHTTP(w, r.WithContext(ctx))
		return nil
	}
}

// awaitConfig waits for the first configuration of the process to start: before that the admin
// endpoint answers already, but no configuration is running.
func awaitConfig(ctx context.Context) {
	for caddy.ActiveContext().Context == nil && time.Since(started) < 2*instance.ReadyTimeout && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

func serveHealth(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed,
			Err: errors.New("method not allowed: expected GET")}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(instance.Describe())
}

// Interface guards
var (
	_ caddy.AdminRouter = (*Admin)(nil)
	_ caddy.Provisioner = (*Admin)(nil)
)
