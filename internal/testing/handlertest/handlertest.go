// Package handlertest makes handlers for tests, from configs, as Caddy would.
package handlertest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/operator/local"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// Config is a configuration for handlers. Its app isn't that of the module: a test that imports it links all that
// the module has, and compiles it anew after each edit of what it stands on.
type Config struct {
	ctx      caddy.Context
	compiler *config.Compiler
}

// configs is the number of configurations, each of which has a store of its own.
var configs atomic.Int64

// store keeps counts in memory, apart from those of other stores.
type store struct {
	stores.Memory
	Name string `json:"name"`
}

func init() { caddy.RegisterModule(new(store)) }

// CaddyModule returns the Caddy module information.
func (*store) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "rate_limit.stores.handlertest", New: func() caddy.Module { return new(store) }}
}

// Provision implements caddy.Provisioner.
func (s *store) Provision(ctx caddy.Context) error {
	err := s.Memory.Provision(ctx)
	s.Isolate()
	return err
}

// Identity and Counts name the store.
func (s *store) Identity() string { return s.Name }
func (s *store) Counts() string   { return s.Name }

// OnDisk returns an app whose counts are in a database in a temporary folder.
func OnDisk(t testing.TB) *config.App {
	t.Helper()
	raw, err := json.Marshal(map[string]string{"engine": "sqlite", "path": filepath.Join(t.TempDir(), "tally.db")})
	if err != nil {
		t.Fatal(err)
	}
	return &config.App{StoreRaw: raw}
}

// Compile returns a configuration with a copy of an app. Counts are in memory, unless the app has a store: to open a
// database takes longer than most tests.
func Compile(t testing.TB, app *config.App) *Config {
	t.Helper()
	raw, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	app = new(config.App)
	if err := app.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	if app.StoreTimeout = caddy.Duration(time.Minute); app.StoreRaw == nil {
		app.StoreRaw = fmt.Appendf(nil, `{"engine": "handlertest", "name": "%d"}`, configs.Add(1))
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

// Start returns a handler that is ready for requests. Its rules are in a file of the test's own.
func Start(t testing.TB, app *config.App, config *config.Handler) *enforce.Handler {
	t.Helper()
	if app.RulesFile == "" {
		app.RulesFile = filepath.Join(t.TempDir(), "rules")
	}
	h := Provision(t, Compile(t, app), config)
	h.Config.Started()
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
