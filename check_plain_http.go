package tally

// This file finds what is unsafe over plain HTTP.

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// warnOfPlainHTTP warns of what plain HTTP makes unsafe, if the server of a handler
// speaks it. ctx is the handler's.
func (h *Handler) warnOfPlainHTTP(ctx caddy.Context) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || len(server.TLSConnPolicies) > 0 {
		return
	}
	if h.app.Session != nil && !h.app.warned["plain HTTP"] {
		h.app.warned["plain HTTP"] = true
		h.app.log.Warn("sessions over plain HTTP can be read and taken over on the way; use HTTPS, here or at a proxy in front")
	}
	for _, t := range h.Traps {
		if t.offense.Ban.After > 0 {
			warnOfConfig(h.log, t.Source, "trap: over plain HTTP browsers don't say that a page of another site leads them into a trap, so it can have its visitors banned",
				"an https:// site, here or at a proxy in front; or a trap without a ban")
			return
		}
	}
}
