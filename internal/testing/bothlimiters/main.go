//go:build tally

// Command bothlimiters is Caddy with this module under its other names, beside a stand-in that has all
// names of another rate limiter: of the handler, the directive, the global option, the app and metrics.
package main

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-tally/caddy-tally"
)

type other struct{}

func (other) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.rate_limit", New: func() caddy.Module { return other{} }}
}

func (other) Provision(ctx caddy.Context) error {
	return ctx.GetMetricsRegistry().Register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_rate_limit_requests_total", Help: "Of the other limiter.",
	}, []string{"another_label"}))
}

func (other) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	w.Header().Set("Other-Limiter", "here")
	return next.ServeHTTP(w, r)
}

type otherApp struct{}

func (otherApp) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "rate_limit", New: func() caddy.Module { return otherApp{} }}
}

func (otherApp) Start() error { return nil }
func (otherApp) Stop() error  { return nil }

func init() {
	caddy.RegisterModule(other{})
	caddy.RegisterModule(otherApp{})
	httpcaddyfile.RegisterHandlerDirective("rate_limit", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) { return other{}, nil })
	httpcaddyfile.RegisterDirectiveOrder("rate_limit", httpcaddyfile.Before, "basic_auth")
	httpcaddyfile.RegisterGlobalOption("rate_limit", func(*caddyfile.Dispenser, any) (any, error) {
		return httpcaddyfile.App{Name: "rate_limit", Value: caddyconfig.JSON(otherApp{}, nil)}, nil
	})
}

func main() { caddycmd.Main() }
