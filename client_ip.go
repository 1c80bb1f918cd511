package tally

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
)

// clientIPFields returns the header fields that a server of ctx, a handler's, reads
// a client's address from, in their order: nil where all it may read is a list such
// as X-Forwarded-For, or reads fields from their end (`trusted_proxies_strict`).
func clientIPFields(ctx caddy.Context) []string {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.TrustedProxiesStrict > 0 || !slices.ContainsFunc(server.ClientIPHeaders, isSingle) {
		return nil
	}
	return server.ClientIPHeaders
}

// isSingle reports whether a header field has one address. One proxy sets it, where
// to X-Forwarded-For each adds another.
func isSingle(field string) bool { return !strings.EqualFold(field, "X-Forwarded-For") }

// fixClientIP sees to it that a client can't choose its address with a second
// line of a header field that has one address: proxies that don't replace the
// field add theirs at the end, and Caddy takes the first. It changes Caddy's own
// variable, so that matchers, placeholders and logs are about the same client.
func (e *evaluation) fixClientIP(fields []string) {
	if trusted, _ := e.vars[caddyhttp.TrustedProxyVarKey].(bool); !trusted {
		return
	}
	for _, field := range fields {
		addresses := addressesIn(e.http.Header[http.CanonicalHeaderKey(field)])
		if len(addresses) == 0 {
			continue // Caddy takes the next field
		}
		if len(addresses) > 1 && isSingle(field) {
			e.vars[caddyhttp.ClientIPVarKey] = addresses[len(addresses)-1].String()
		}
		return
	}
}

// addressesIn returns the addresses in a header field, as Caddy reads them.
func addressesIn(values []string) (addresses []netip.Addr) {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			host, _, err := net.SplitHostPort(part)
			if err != nil {
				host = part
			}
			host, _, _ = strings.Cut(strings.TrimSpace(host), "%")
			if address, err := netip.ParseAddr(host); err == nil {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}

// clientIP returns the client's address as Caddy determined it, or "".
func (e *evaluation) clientIP() string {
	ip, _ := e.vars[caddyhttp.ClientIPVarKey].(string)
	return ip
}

// network returns the network that tells clients apart, or false for what is no
// address.
func (a *shared) network(ip string) (netip.Prefix, bool) {
	ipv4, ipv6 := a.prefixes(0, 0)
	return identity.Prefix(ip, ipv4, ipv6)
}

// prefixes returns how many bits of an address tell clients apart: as the zone says, else as
// the app says, else the defaults.
func (a *shared) prefixes(ipv4, ipv6 int) (int, int) {
	return cmp.Or(ipv4, a.IPv4Prefix, identity.DefaultIPv4Prefix), cmp.Or(ipv6, a.IPv6Prefix, identity.DefaultIPv6Prefix)
}
