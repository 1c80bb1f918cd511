package lint

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// checkAddress asks whether a server can tell who the client is.
func checkAddress(s *config.Survey) (found []advice.Advice) {
	for _, p := range s.Places {
		if routing.TrustsProxies(p.View.Server) {
			found = append(found, checkPeers(p)...)
		}
	}
	for _, v := range s.Views {
		if !slices.ContainsFunc(s.Places, func(p *config.Place) bool { return p.View == v && slices.ContainsFunc(p.Zones, countsAddresses) }) {
			continue
		}
		problem, local := "", v.LocalAddress()
		if local != "" {
			problem = "this server listens at " + local + ": visitors come through a proxy, and share one address and one count"
		} else if sign, at := signOfProxy(s, v); sign != "" && !routing.TrustsProxies(v.Server) {
			problem, local = sign+" tells of a proxy in front, but this server trusts none: its visitors share one count", at
		}
		fix := "trusted_proxies static 192.0.2.0/24, with the networks of the proxy"
		if strings.HasPrefix(local, "unix") {
			fix = "trusted_proxies_unix"
		} else if local != "" {
			fix = "trusted_proxies static 127.0.0.1/8 ::1"
		}
		if problem != "" {
			found = append(found, advice.Advice{Server: v.Server.Listen, Problem: problem, Fix: fix + ", and trusted_proxies_strict"})
		}
	}
	for _, server := range limited(s) {
		give := func(applies bool, problem, fix string) {
			if applies {
				found = append(found, advice.Advice{Server: server.Listen, Problem: problem, Fix: fix})
			}
		}
		fields, trusts := server.ClientIPHeaders, routing.TrustsProxies(server)
		// proxies replace other fields, such as Cloudflare's own
		takesFirst := fields == nil || slices.ContainsFunc(fields, func(field string) bool { return !enforce.IsSingle(field) })
		give(trusts && takesFirst && server.TrustedProxiesStrict == 0,
			"this server trusts proxies, and takes the first address of X-Forwarded-For, which clients can write", enforce.StrictProxies)
		give(!trusts && slices.ContainsFunc(fields, enforce.IsSingle),
			"client_ip_headers has no effect without trusted_proxies: all visitors that come through one proxy share one count", "trusted_proxies static <networks of your proxy> beside it")
		give(slices.ContainsFunc(routing.TrustedRanges(server), isWide),
			"trusted_proxies has a large part of the Internet: its clients are proxies, and either write their own address or share one count", "trusted_proxies static <network of your proxy>")
		from, speaks := routing.ProxyProtocol(server)
		const fromBalancer = "allow 192.0.2.0/24; with the network of the load balancer, and no fallback_policy"
		give(slices.ContainsFunc(from, isWide), "proxy_protocol: everybody may tell the address of a connection, and so writes its own", fromBalancer)
		give(speaks && from == nil && !strings.Contains(strings.Join(server.Listen, " "), "/"), "proxy_protocol without allow heeds nobody: all visitors share the address and the count of the load balancer", fromBalancer)
	}
	return found
}

// isWide reports whether a network is a large part of the Internet.
func isWide(network string) bool {
	p, err := netip.ParsePrefix(network)
	return err == nil && p.Bits() < 8
}

// signOfProxy returns what tells of a proxy in front of a server, and where it reaches the server if that is known; or "".
func signOfProxy(s *config.Survey, v *routing.View) (sign, at string) {
	for _, other := range s.Views {
		for _, p := range other.Places {
			if other == v {
				continue
			}
			for _, u := range upstreams(p.Module) {
				host, port, _ := net.SplitHostPort(u.Dial)
				ip, _ := netip.ParseAddr(host)
				here := func(at string) bool {
					return at == u.Dial || (host == "localhost" || ip.IsLoopback()) && strings.HasSuffix(at, ":"+port)
				}
				if slices.ContainsFunc(v.Server.Listen, here) {
					return "reverse_proxy " + u.Dial, u.Dial
				}
			}
		}
	}
	for _, p := range v.Places {
		h, ok := p.Module.(*reverseproxy.Handler)
		switch {
		case !ok:
		case len(h.TrustedProxies) > 0 && len(h.HandleResponse) == 0: // forward_auth has them as its docs show
			return "trusted_proxies in reverse_proxy", ""
		case h.Headers != nil && h.Headers.Request != nil:
			for _, field := range slices.Sorted(maps.Keys(h.Headers.Request.Set)) {
				for _, name := range routing.PlaceholderNames(strings.Join(h.Headers.Request.Set[field], " ")) {
					from, isField := strings.CutPrefix(name, "http.request.header.")
					if isField && slices.ContainsFunc(addressFields, func(f string) bool { return strings.EqualFold(f, from) }) {
						return fmt.Sprintf("header_up %s {header.%s}", field, from), ""
					}
				}
			}
		}
	}
	return "", ""
}

// countsAddresses reports whether a zone counts by the addresses of its clients.
func countsAddresses(z *config.Zone) bool {
	return z.Key == "" && z.Per != enforce.PerEveryone && z.Per != enforce.PerAPIKey && !z.IsPeerForm() && !z.Tiers
}

// checkPeers finds options that use the peer's address on a server behind proxies: it is the same
// for all clients.
func checkPeers(p *config.Place) (found []advice.Advice) {
	for _, o := range p.Sets() {
		if config.HasMatcher(o.ModuleMap, "remote_ip") {
			found = append(found, o.Advice(o.Option+": remote_ip is the address of the proxy and not of the client, because this server has trusted_proxies", "client_ip in the place of remote_ip"))
		}
	}
	strangers := p.WitnessStranger(routing.Requests{})
	for _, q := range p.View.Places {
		peers := func(r routing.Requests) bool { return config.HasMatcher(r.Set, "remote_ip") }
		if p.Handler != nil && p.Site == q.Site && len(strangers) > 0 && !strangers.Reaches() && !strangers.Refused() &&
			slices.ContainsFunc(q.Around, func(route []routing.Requests) bool { return slices.ContainsFunc(route, peers) }) {
			found = append(found, p.Handler.Advice("no visitor comes here through the proxy: a matcher of this site has remote_ip, which is the address of the proxy", "client_ip in the place of remote_ip"))
			break
		}
	}
	for _, z := range p.Zones {
		if slices.Contains(routing.PlaceholderNames(z.Key), "http.request.remote.host") {
			found = append(found, z.Advice("key: {http.request.remote.host} is the address of the proxy, because this server has trusted_proxies, so that all clients behind it share one count",
				"per ip"))
		}
	}
	return found
}

// limited returns the servers with handlers that do anything, each once.
func limited(s *config.Survey) (servers []*caddyhttp.Server) {
	for _, p := range s.Places {
		idle := p.Handler == nil || len(p.Zones) == 0 && len(p.Handler.Traps) == 0 && s.App.Session == nil
		if !idle && !slices.Contains(servers, p.View.Server) {
			servers = append(servers, p.View.Server)
		}
	}
	return servers
}
