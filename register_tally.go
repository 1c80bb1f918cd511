//go:build tally

package tally

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

func init() {
	caddy.RegisterModule(Handler{})
	caddy.RegisterModule(new(App))
	httpcaddyfile.RegisterHandlerDirective("tally", parseHandler)
	httpcaddyfile.RegisterDirectiveOrder("tally", httpcaddyfile.Before, "basic_auth")
	httpcaddyfile.RegisterHandlerDirective("tally_user", parseHandler)
	httpcaddyfile.RegisterDirectiveOrder("tally_user", httpcaddyfile.After, "forward_auth")
	httpcaddyfile.RegisterGlobalOption("tally", parseApp)
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.tally", New: func() caddy.Module { return new(Handler) }}
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tally", New: func() caddy.Module { return new(App) }}
}
