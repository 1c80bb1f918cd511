// Package handlertest makes handlers for tests, from configs, as Caddy would.
package handlertest

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	tally "github.com/caddy-tally/caddy-tally"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/operator/local"
)

// Context returns the context of a configuration with an app and its counts in a temporary
// folder.
func Context(t testing.TB, app *config.App) caddy.Context {
	t.Helper()
	var err error
	app.StoreRaw, err = json.Marshal(map[string]string{"engine": "sqlite", "path": filepath.Join(t.TempDir(), "tally.db")})
	if err != nil {
		t.Fatal(err)
	}
	app.StoreTimeout = caddy.Duration(time.Minute)
	raw, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{names.App: raw}, Logging: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// quiet discards logs, among which the reason of a failing test couldn't be found; with -v they are shown.
func quiet() *caddy.Logging {
	if testing.Verbose() {
		return nil
	}
	nothing := caddy.BaseLog{WriterRaw: json.RawMessage(`{"output": "discard"}`)}
	return &caddy.Logging{Logs: map[string]*caddy.CustomLog{caddy.DefaultLoggerName: {BaseLog: nothing}}}
}

// Provision returns a handler whose app hasn't started, and whose store isn't open.
func Provision(t testing.TB, ctx caddy.Context, config *config.Handler) *enforce.Handler {
	t.Helper()
	h := &tally.Handler{Handler: *config}
	if err := h.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	return h.Enforcer()
}

// Start returns a handler that is ready for requests.
func Start(t testing.TB, app *config.App, config *config.Handler) *enforce.Handler {
	t.Helper()
	h := Provision(t, Context(t, app), config)
	if err := h.Config.Started(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Config.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// Check returns the error of a config that can't be.
func Check(t testing.TB, h *config.Handler) error {
	t.Helper()
	return (&tally.Handler{Handler: *h}).Provision(Context(t, new(config.App)))
}

// Operator returns the operators' service of a handler.
func Operator(h *enforce.Handler) operator.Service {
	return local.New(func() *enforce.Config { return h.Config }, "", time.Now())
}

// Parse returns the config of a handler with the options of a Caddyfile.
func Parse(t testing.TB, options string) *config.Handler {
	t.Helper()
	tokens, err := caddyfile.Tokenize([]byte("rate_limit {\n"+options+"\n}"), "Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	h := new(tally.Handler)
	if err := h.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)); err != nil {
		t.Fatal(err)
	}
	return &h.Handler
}
