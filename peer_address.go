package tally

import (
	"encoding/json"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// warnOfPeers warns of options that look at the address of the peer on a server whose
// peers are proxies: that is one address for all clients. It must be called before the
// matchers are loaded.
func (h *Handler) warnOfPeers(ctx caddy.Context) error {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || !trustsProxies(server) {
		return nil
	}
	const problem, write = ": remote_ip is the address of the proxy and not of the client, because this server has trusted_proxies", "client_ip in the place of remote_ip"
	if hasMatcher(h.ExemptRaw, "remote_ip") {
		h.warn("exempt"+problem, write)
	}
	for _, t := range h.Traps {
		if t != nil && hasMatcher(t.MatcherSetsRaw, "remote_ip") {
			warnOfConfig(h.log, t.Source, "trap"+problem, write)
		}
	}
	zones, err := h.ordered()
	if err != nil {
		return err
	}
	for _, z := range zones {
		if hasMatcher(z.MatcherSetsRaw, "remote_ip") || slices.ContainsFunc(z.Costs, func(c Cost) bool { return hasMatcher(c.MatcherSetsRaw, "remote_ip") }) {
			z.warn(h.log, "match"+problem, write)
		}
		if slices.Contains(placeholders(z.Key), "http.request.remote.host") {
			z.warn(h.log, "key: {http.request.remote.host} is the address of the proxy, because this server has trusted_proxies, so that all clients behind it share one count",
				"per ip, or key {client_ip}")
		}
	}
	return nil
}

// hasMatcher reports whether there is a matcher of a name in matcher sets.
func hasMatcher(sets caddyhttp.RawMatcherSets, name string) bool {
	return slices.ContainsFunc(sets, func(set caddy.ModuleMap) bool {
		var negated caddyhttp.RawMatcherSets
		if set["not"] != nil {
			_ = json.Unmarshal(set["not"], &negated) // what is wrong with it is said when it is loaded
		}
		return set[name] != nil || hasMatcher(negated, name)
	})
}

// warnIfIdle warns of a handler that does nothing.
func (h *Handler) warnIfIdle() {
	if len(h.zones) == 0 && len(h.Traps) == 0 && h.app.Session == nil {
		h.warn("this handler has no zone, and limits nothing", "zone login {, limit 5/1m and }, each on a line of its own")
	}
}
