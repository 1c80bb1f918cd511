package enforce

import (
	"context"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/gate"
)

// This file ends what would keep Caddy from stopping: without a grace period it waits for requests
// for ever, before it stops other apps and cancels their contexts.

// OnShutdown registers f to be called when the server of a handler that is being provisioned begins
// to shut down: after shutdown_delay, and when another config has replaced its own.
func OnShutdown(ctx caddy.Context, f func()) {
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		server.RegisterOnShutdown(f)
	}
}

// waits are the waiting requests of all configs. They go on at a reload, since the next config has
// begun by then. They end when no handler is left on a server that isn't shutting down.
var waits struct {
	sync.Mutex
	handlers int
	end      chan struct{} // closed while there are no handlers
}

// Serve notes that the handler may make requests wait, until its server begins to shut down.
func (h *Handler) Serve(ctx caddy.Context) error {
	if ctx.Value(caddyhttp.ServerCtxKey) == nil {
		return nil // nothing waits in it
	}
	waits.Lock()
	defer waits.Unlock()
	if waits.handlers++; waits.handlers == 1 {
		waits.end = make(chan struct{})
	}
	h.ends = sync.OnceFunc(func() {
		waits.Lock()
		defer waits.Unlock()
		if waits.handlers--; waits.handlers == 0 {
			close(waits.end)
		}
	})
	OnShutdown(ctx, h.ends)
	return nil
}

// waitsEnd returns a channel that is closed when waiting requests must end.
func waitsEnd() <-chan struct{} {
	waits.Lock()
	defer waits.Unlock()
	return waits.end
}

// awaitPlace enters a gate of a zone. If the request must wait, it does so only while its client is there.
func (e *Evaluation) awaitPlace(z *Zone, g *gate.Gate, key string, r gate.Rule) (int64, error) {
	if e.forecasts {
		n, waits, err := g.Forecast(key, e.party(z), r)
		e.Waits = e.Waits || waits
		return n, err
	}
	now := r
	now.Wait = 0
	n, err := g.Enter(e.Http.Context(), key, nil, now, nil)
	if err == nil || r.Wait <= 0 {
		return n, err
	}
	if !e.body.hear(&e.Verdict) {
		return 0, context.Canceled
	}
	return g.Enter(e.Http.Context(), key, e.party(z), r, waitsEnd())
}

// party returns whose turn in a line the request's is: that of its API key, if a zone asks for one, or of its network.
func (e *Evaluation) party(z *Zone) any {
	if e.Credentials.Name != "" {
		return e.Credentials.Name
	}
	network, _ := z.network(e)
	return network
}
