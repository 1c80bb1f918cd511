package config

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// checkAddress asks whether a server can tell who the client is.
func checkAddress(s *survey) []Advice {
	return slices.Concat(checkPeers(s), checkLooseProxies(s), checkUntrusted(s), s.checkEverybodyTrusted())
}

// checkEverybodyTrusted finds servers that take every sender for a proxy.
func (s *survey) checkEverybodyTrusted() (found []Advice) {
	for _, server := range s.limited() {
		if ranges := routing.TrustedRanges(server); slices.ContainsFunc(ranges, func(r string) bool { return strings.HasSuffix(r, "/0") }) {
			found = append(found, Advice{Server: server.Listen, Problem: "trusted_proxies has 0.0.0.0/0 or ::/0: every client is a proxy, and either writes its own address or shares one count with all others",
				Fix: "trusted_proxies static <network of your proxy>"})
		}
	}
	return found
}

// checkPeers finds options that use the peer's address on a server behind proxies: it is the same
// for all clients.
func checkPeers(s *survey) (found []Advice) {
	for _, p := range s.places {
		if p.handler != nil && routing.TrustsProxies(p.view.Server) {
			found = append(found, p.checkPeers()...)
		}
	}
	return found
}

func (p *place) checkPeers() (found []Advice) {
	const problem, write = ": remote_ip is the address of the proxy and not of the client, because this server has trusted_proxies", "client_ip in the place of remote_ip"
	if hasMatcher(p.handler.ExemptRaw, "remote_ip") {
		found = append(found, p.handler.advice("exempt"+problem, write))
	}
	for _, t := range p.handler.Traps {
		if hasMatcher(t.MatcherSetsRaw, "remote_ip") {
			found = append(found, Advice{Problem: "trap" + problem, Fix: write, Source: t.Source})
		}
	}
	for _, z := range p.zones {
		if hasMatcher(z.MatcherSetsRaw, "remote_ip") || slices.ContainsFunc(z.Costs, func(c Cost) bool { return hasMatcher(c.MatcherSetsRaw, "remote_ip") }) {
			found = append(found, z.advice("match"+problem, write))
		}
		if slices.Contains(routing.PlaceholderNames(z.Key), "http.request.remote.host") {
			found = append(found, z.advice("key: {http.request.remote.host} is the address of the proxy, because this server has trusted_proxies, so that all clients behind it share one count",
				"per ip, or key {client_ip}"))
		}
	}
	return found
}

// checkLooseProxies finds servers that accept an address from the client, if their proxies append
// to the field that they receive.
func checkLooseProxies(s *survey) (found []Advice) {
	for _, server := range s.limited() {
		// proxies replace other fields, such as Cloudflare's own
		takesFirst := server.ClientIPHeaders == nil || slices.ContainsFunc(server.ClientIPHeaders, func(field string) bool { return !enforce.IsSingle(field) })
		if server.TrustedProxiesStrict == 0 && routing.TrustsProxies(server) && takesFirst {
			found = append(found, Advice{Server: server.Listen, Fix: enforce.StrictProxies,
				Problem: "this server trusts proxies, and takes the first address of X-Forwarded-For, which clients can write"})
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

// checkUntrusted finds servers that configure fields for the client's address, but ignore them
// because they trust no proxy.
func checkUntrusted(s *survey) (found []Advice) {
	for _, server := range s.limited() {
		if slices.ContainsFunc(server.ClientIPHeaders, enforce.IsSingle) && !routing.TrustsProxies(server) {
			found = append(found, Advice{Server: server.Listen, Problem: "client_ip_headers has no effect without trusted_proxies: all visitors that come through one proxy share one count",
				Fix: "trusted_proxies static <networks of your proxy> beside it"})
		}
	}
	return found
}
