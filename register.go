//go:build !tally

package tally

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

func init() {
	caddy.RegisterModule(Handler{})
	caddy.RegisterModule(new(App))
	httpcaddyfile.RegisterHandlerDirective("rate_limit", parseHandler)
	httpcaddyfile.RegisterDirectiveOrder("rate_limit", httpcaddyfile.Before, "basic_auth")
	httpcaddyfile.RegisterHandlerDirective("rate_limit_user", parseHandler)
	httpcaddyfile.RegisterDirectiveOrder("rate_limit_user", httpcaddyfile.After, "forward_auth")
	httpcaddyfile.RegisterGlobalOption("rate_limit", parseApp)
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.rate_limit", New: func() caddy.Module { return new(Handler) }}
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "rate_limit", New: func() caddy.Module { return new(App) }}
}
