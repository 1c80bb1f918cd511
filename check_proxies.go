package tally

// This file finds options that see the address of a proxy instead of the client, and servers
// whose clients can write their own address.

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/placeholder"
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
		if slices.Contains(placeholder.Names(z.Key), "http.request.remote.host") {
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

// warnOfLooseProxies warns once of a server that takes the word of clients for their
// addresses, if its proxies append to what they are sent. ctx is that of a handler.
func (a *App) warnOfLooseProxies(ctx caddy.Context) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.TrustedProxiesStrict > 0 || !trustsProxies(server) {
		return
	}
	if !slices.ContainsFunc(server.ClientIPHeaders, func(field string) bool { return !isSingle(field) }) {
		return // such as Cloudflare's own, which it replaces
	}
	name := "loose proxies of " + strings.Join(server.Listen, " ")
	if a.warned[name] {
		return
	}
	a.warned[name] = true
	warnOfConfig(a.log, "", "this server trusts proxies, and takes the first address of X-Forwarded-For: behind a proxy that appends to it, as most do, clients can write that themselves, and be whoever they like",
		strictProxies, zap.Strings("server", server.Listen))
}

// trustsProxies reports whether a server has trusted proxies, which it doesn't show.
func trustsProxies(server *caddyhttp.Server) bool {
	source := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	return server.TrustedProxiesUnix || server.TrustedProxiesRaw != nil ||
		source.IsValid() && source.Kind() == reflect.Interface && !source.IsNil()
}
