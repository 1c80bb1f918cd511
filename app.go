package tally

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/names"
	"github.com/caddy-tally/caddy-tally/internal/networks"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/operator/local"
)

// App keeps the counts of all `rate_limit` handlers and decides about their
// requests. It need not be configured: every option has a default.
type App struct {
	config.App

	compiler *config.Compiler
	run      *enforce.Config
}

// Provision checks the settings. It opens nothing: a configuration that is only validated, or that
// is invalid elsewhere, leaves no trace.
func (a *App) Provision(ctx caddy.Context) (err error) {
	a.compiler, err = a.Compile(ctx)
	if a.run = a.compiler.Run; err != nil {
		return err
	}
	return a.run.OpenOnceStarted(ctx)
}

// Start implements caddy.App.
func (a *App) Start() error {
	if !a.run.Used && a.Source != "" {
		a.run.Warn("no site has the directive rate_limit, so that nothing is limited",
			"rate_limit {, zone login {, limit 5/1m, } and } in a site, each on a line of its own")
	}
	a.run.Start()
	return nil
}

// Stop implements caddy.App.
func (a *App) Stop() error {
	a.run.Stop()
	return nil
}

// Cleanup gives up the instance.
func (a *App) Cleanup() error {
	if a.run == nil {
		return nil
	}
	return a.run.Cleanup()
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

// runningApp returns the app of the running configuration, or nil if it has none.
func runningApp() *enforce.Config {
	app, err := caddy.ActiveContext().AppIfConfigured(names.App)
	if err != nil {
		return nil
	}
	return app.(*App).run
}

// started is the start of this process.
var started = time.Now()

// runningService returns the operators' service.
func runningService() operator.Service {
	return local.New(runningApp, runningVersions().Module, started)
}

// Enforcer returns the state that all handlers of the running config share.
func (a *App) Enforcer() *enforce.Config { return a.run }

// NetworkFiles returns the files of the option `networks`, for the matchers that look up addresses in
// them.
func (a *App) NetworkFiles() networks.Files { return a.run.Networks }
