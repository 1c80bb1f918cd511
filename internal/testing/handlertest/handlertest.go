// Package handlertest makes handlers for tests, from configs, as Caddy would.
package handlertest

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/operator/local"
)

// Config is a configuration for handlers. Its app isn't that of the module: a test that imports it links all that
// the module has, and compiles it anew after each edit of what it stands on.
type Config struct {
	ctx      caddy.Context
	compiler *config.Compiler
}

// Compile returns a configuration with a copy of an app and its counts in a temporary folder.
func Compile(t testing.TB, app *config.App) *Config {
	t.Helper()
	raw, err := json.Marshal(map[string]string{"engine": "sqlite", "path": filepath.Join(t.TempDir(), "tally.db")})
	if err != nil {
		t.Fatal(err)
	}
	app.StoreRaw, app.StoreTimeout = raw, caddy.Duration(time.Minute)
	return CompileWith(t, app)
}

// CompileWith is Compile with the app's own store.
func CompileWith(t testing.TB, app *config.App) *Config {
	t.Helper()
	raw, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	app = new(config.App)
	if err := app.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&caddy.Config{Logging: Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	compiler, err := app.Compile(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.Run.OpenOnceStarted(ctx); err != nil {
		t.Fatal(err)
	}
	return &Config{ctx, compiler}
}

// Quiet discards logs, among which the reason of a failing test couldn't be found; with -v they are shown.
func Quiet() *caddy.Logging {
	if testing.Verbose() {
		return nil
	}
	nothing := caddy.BaseLog{WriterRaw: json.RawMessage(`{"output": "discard"}`)}
	return &caddy.Logging{Logs: map[string]*caddy.CustomLog{caddy.DefaultLoggerName: {BaseLog: nothing}}}
}

// Provision returns a handler whose app hasn't started, and whose store isn't open.
func Provision(t testing.TB, c *Config, config *config.Handler) *enforce.Handler {
	t.Helper()
	h, err := c.compiler.Handler(c.ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Start returns a handler that is ready for requests.
func Start(t testing.TB, app *config.App, config *config.Handler) *enforce.Handler {
	t.Helper()
	h := Provision(t, Compile(t, app), config)
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
	c := Compile(t, new(config.App))
	_, err := c.compiler.Handler(c.ctx, h)
	return err
}

// Operator returns the operators' service of a handler.
func Operator(h *enforce.Handler) operator.Service {
	return local.New(func() *enforce.Config { return h.Config }, "", time.Now())
}

// Parse returns the config of a handler with the options of a Caddyfile.
func Parse(t testing.TB, options string) *config.Handler {
	t.Helper()
	_, h := Read(t, ":80 {\nrate_limit {\n"+options+"\n}\n}")
	return h
}

// Read returns the app and the last handler of a Caddyfile.
func Read(t testing.TB, text string) (*config.App, *config.Handler) {
	t.Helper()
	blocks, err := caddyfile.Parse("Caddyfile", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	app, h := new(config.App), new(config.Handler)
	for _, block := range blocks {
		for _, segment := range block.Segments {
			if segment.Directive() != "rate_limit" {
				continue
			}
			d := caddyfile.NewDispenser(segment)
			if len(block.Keys) == 0 {
				err = app.Unmarshal(d)
			} else {
				err = h.Unmarshal(d, httpcaddyfile.Helper{Dispenser: d}.MatcherToken)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return app, h
}
