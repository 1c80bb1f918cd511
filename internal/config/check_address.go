package config

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// checkAddress asks whether a server can tell who the client is.
func checkAddress(s *survey) (found []Advice) {
	for _, p := range s.places {
		if routing.TrustsProxies(p.view.Server) {
			found = append(found, p.checkPeers()...)
		}
	}
	for _, server := range s.limited() {
		give := func(applies bool, problem, fix string) {
			if applies {
				found = append(found, Advice{Server: server.Listen, Problem: problem, Fix: fix})
			}
		}
		fields, trusts := server.ClientIPHeaders, routing.TrustsProxies(server)
		// proxies replace other fields, such as Cloudflare's own
		takesFirst := fields == nil || slices.ContainsFunc(fields, func(field string) bool { return !enforce.IsSingle(field) })
		give(trusts && takesFirst && server.TrustedProxiesStrict == 0,
			"this server trusts proxies, and takes the first address of X-Forwarded-For, which clients can write", enforce.StrictProxies)
		give(!trusts && slices.ContainsFunc(fields, enforce.IsSingle),
			"client_ip_headers has no effect without trusted_proxies: all visitors that come through one proxy share one count", "trusted_proxies static <networks of your proxy> beside it")
		give(slices.ContainsFunc(routing.TrustedRanges(server), func(r string) bool { return strings.HasSuffix(r, "/0") }),
			"trusted_proxies has 0.0.0.0/0 or ::/0: every client is a proxy, and either writes its own address or shares one count with all others", "trusted_proxies static <network of your proxy>")
	}
	return found
}

// checkPeers finds options that use the peer's address on a server behind proxies: it is the same
// for all clients.
func (p *place) checkPeers() (found []Advice) {
	for _, o := range p.sets() {
		if hasMatcher(o.ModuleMap, "remote_ip") {
			found = append(found, o.advice(o.option+": remote_ip is the address of the proxy and not of the client, because this server has trusted_proxies", "client_ip in the place of remote_ip"))
		}
	}
	for _, z := range p.zones {
		if slices.Contains(routing.PlaceholderNames(z.Key), "http.request.remote.host") {
			found = append(found, z.advice("key: {http.request.remote.host} is the address of the proxy, because this server has trusted_proxies, so that all clients behind it share one count",
				"per ip, or key {client_ip}"))
		}
	}
	return found
}

// limited returns the servers with handlers that do anything, each once.
func (s *survey) limited() (servers []*caddyhttp.Server) {
	for _, p := range s.places {
		idle := p.handler == nil || len(p.zones) == 0 && len(p.handler.Traps) == 0 && s.app.Session == nil
		if !idle && !slices.Contains(servers, p.view.Server) {
			servers = append(servers, p.view.Server)
		}
	}
	return servers
}
