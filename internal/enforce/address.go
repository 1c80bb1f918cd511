package enforce

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

// ClientIPFields returns the header fields from which the server of a handler's ctx reads a
// client's address, in order. It returns nil if every such field is a list, such as
// X-Forwarded-For, or if the server reads fields from their end (`trusted_proxies_strict`).
func ClientIPFields(ctx caddy.Context) []string {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.TrustedProxiesStrict > 0 || !slices.ContainsFunc(server.ClientIPHeaders, IsSingle) {
		return nil
	}
	return server.ClientIPHeaders
}

// IsSingle reports whether a header field holds one address. One proxy sets it, while every proxy
// appends an address to X-Forwarded-For.
func IsSingle(field string) bool { return !strings.EqualFold(field, "X-Forwarded-For") }

// fixClientIP prevents a client from choosing its address with a second line of a single-address
// header field. A proxy that doesn't replace the field appends its own line, and Caddy takes the
// first. fixClientIP changes Caddy's own variable, so that matchers, placeholders and logs agree on
// the client.
func (v *Verdict) fixClientIP(fields []string) {
	if trusted, _ := v.Vars[caddyhttp.TrustedProxyVarKey].(bool); !trusted {
		return
	}
	for _, field := range fields {
		addresses := matcher.AddressesIn(v.Http.Header[http.CanonicalHeaderKey(field)])
		if len(addresses) == 0 {
			continue // Caddy takes the next field
		}
		if len(addresses) > 1 && IsSingle(field) {
			v.Vars[caddyhttp.ClientIPVarKey] = addresses[len(addresses)-1].String()
		}
		return
	}
}

// ClientIP returns the client's address as Caddy determined it, or "".
func (v *Verdict) ClientIP() string {
	ip, _ := v.Vars[caddyhttp.ClientIPVarKey].(string)
	return ip
}

// network returns the network that identifies a client, or false if ip is not an address.
func (cfg *Config) network(ip string) (netip.Prefix, bool) {
	ipv4, ipv6 := cfg.Prefixes(0, 0)
	return identity.Prefix(ip, ipv4, ipv6)
}

// Prefixes returns how many bits of an address identify a client: the zone's setting, else the
// app's, else the defaults.
func (cfg *Config) Prefixes(ipv4, ipv6 int) (int, int) {
	return cmp.Or(ipv4, cfg.IPv4Prefix, identity.DefaultIPv4Prefix), cmp.Or(ipv6, cfg.IPv6Prefix,
		identity.DefaultIPv6Prefix)
}

// IsClaimed reports whether the client may have chosen its address.
func (v *Verdict) IsClaimed() bool { return matcher.IsClaimed(v.Http) }

const StrictProxies = "`trusted_proxies_strict` beside `trusted_proxies`, in `servers` of the global options"

// noteClaim warns operators, once, that clients choose their addresses.
func (cfg *Config) noteClaim() {
	cfg.Claims.Do(func() {
		cfg.Warn("a trusted proxy sent several addresses, and Caddy takes the first, which clients can write: nobody is banned by it",
			StrictProxies)
	})
}
