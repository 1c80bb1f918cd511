package tally

// This file finds zones that never see the answers by which they are to count.

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

// checkOutcomes warns of zones that count answers which only earlier handlers give.
func (h *Handler) checkOutcomes(ctx caddy.Context) error {
	zones, err := h.ordered()
	if err != nil {
		return nil // as provisioning them will say
	}
	var around *around
	for _, z := range zones {
		if z.Count == nil || !z.Count.counts(http.StatusUnauthorized) && !z.Count.counts(http.StatusForbidden) {
			continue
		}
		if around == nil {
			around = aroundHandler(ctx)
		}
		if earlier := around.authenticates(); earlier != "" {
			z.warn(h.log, "count: "+earlier+" runs before this handler, so the zone never sees what it refuses: failed logins don't count", beforeAuthentication)
		}
	}
	return nil
}

// beforeAuthentication is what to write for a zone that is to see failed logins.
const beforeAuthentication = "rate_limit instead of rate_limit_user: it runs before basic_auth and forward_auth; or in a route block and in JSON, put the handler before the one that checks passwords"

// authenticates returns a handler that authenticates users before this one, or "".
func (a *around) authenticates() string {
	switch {
	case a.before.has("http.auth."):
		return "basic_auth"
	case a.before.has("http.reverse_proxy."):
		return "forward_auth"
	}
	return ""
}
