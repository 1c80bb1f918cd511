package tally

// This file finds options that see the address of a proxy instead of the client, and servers
// whose clients can write their own address.

import (
	"encoding/json"
	"iter"
	"reflect"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// checkPeers finds options that look at the address of the peer on a server whose peers are
// proxies: that is one address for all clients.
func checkPeers(s *survey) (found []Advice) {
	for _, p := range s.places {
		if p.handler != nil && trustsProxies(p.server) {
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
		if slices.Contains(placeholder.Names(z.Key), "http.request.remote.host") {
			found = append(found, z.advice("key: {http.request.remote.host} is the address of the proxy, because this server has trusted_proxies, so that all clients behind it share one count",
				"per ip, or key {client_ip}"))
		}
	}
	return found
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

// checkLooseProxies finds servers that take the word of clients for their addresses, if their
// proxies append to what they are sent.
func checkLooseProxies(s *survey) (found []Advice) {
	for server := range s.limited() {
		// of a field such as Cloudflare's own, the proxy replaces what it is sent
		takesFirst := server.ClientIPHeaders == nil || slices.ContainsFunc(server.ClientIPHeaders, func(field string) bool { return !enforce.IsSingle(field) })
		if server.TrustedProxiesStrict == 0 && trustsProxies(server) && takesFirst {
			found = append(found, Advice{Server: server.Listen, Fix: enforce.StrictProxies,
				Problem: "this server trusts proxies, and takes the first address of X-Forwarded-For: behind a proxy that appends to it, as most do, clients can write that themselves, and be whoever they like"})
		}
	}
	return found
}

// limited returns the servers that have handlers which do anything, each once.
func (s *survey) limited() iter.Seq[*caddyhttp.Server] {
	return func(yield func(*caddyhttp.Server) bool) {
		seen := make(map[*caddyhttp.Server]bool)
		for _, p := range s.places {
			idle := p.handler == nil || len(p.zones) == 0 && len(p.handler.Traps) == 0 && s.app.Session == nil
			if idle || seen[p.server] {
				continue
			}
			if seen[p.server] = true; !yield(p.server) {
				return
			}
		}
	}
}

// trustsProxies reports whether a server has trusted proxies, which it doesn't show.
func trustsProxies(server *caddyhttp.Server) bool {
	source := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	return server.TrustedProxiesUnix || server.TrustedProxiesRaw != nil ||
		source.IsValid() && source.Kind() == reflect.Interface && !source.IsNil()
}
