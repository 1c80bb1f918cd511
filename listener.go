package tally

import (
	"fmt"
	"net"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/listener"
	"github.com/caddy-tally/caddy-tally/internal/names"
)

// ListenerWrapper closes connections before TLS, where most of what a refused request costs isn't paid yet.
type ListenerWrapper struct {
	config.Listener

	door *listener.Door
}

func init() {
	caddy.RegisterModule(ListenerWrapper{})
}

// CaddyModule returns the Caddy module information.
func (ListenerWrapper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.listeners.rate_limit", New: func() caddy.Module { return new(ListenerWrapper) }}
}

// Provision checks the options.
func (w *ListenerWrapper) Provision(ctx caddy.Context) error {
	app, err := ctx.App(names.App)
	if err != nil {
		return fmt.Errorf("getting rate_limit app: %w", err)
	}
	w.door, err = app.(*App).compiler.Listener(ctx, &w.Listener)
	return err
}

// WrapListener implements caddy.ListenerWrapper.
func (w *ListenerWrapper) WrapListener(l net.Listener) net.Listener { return w.door.Wrap(l) }

// UnmarshalCaddyfile sets up the wrapper from Caddyfile tokens. Syntax:
//
//	rate_limit {
//		connections <n>
//		limit <n>/<duration> [burst <n>] [sliding|fixed|token_bucket] [slots <n>] [timezone <name>] [block <duration> [from the last]] [name <name>] [shadow]
//		except <network...>
//	}
func (w *ListenerWrapper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return w.Unmarshal(d) }

// Interface guards
var (
	_ caddy.ListenerWrapper = (*ListenerWrapper)(nil)
	_ caddy.Provisioner     = (*ListenerWrapper)(nil)
	_ caddyfile.Unmarshaler = (*ListenerWrapper)(nil)
)
