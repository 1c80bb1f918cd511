package tally

import (
	"context"
	"net/http"
	"net/netip"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A server that trusts proxies without `trusted_proxies_strict` takes the first address
// of X-Forwarded-For for the client's. Where the proxy appends to what it was sent, that is
// whatever the client has written. Such an address is claimed: requests are counted by it,
// as always, but nothing is held against it.

// maxChain bounds how many addresses of a field are looked at.
const maxChain = 16

// isClaimed reports whether the client may have chosen its address: the header fields that
// Caddy reads it from have another address as well, which is not a trusted proxy's.
func (e *evaluation) isClaimed() bool {
	ctx := e.http.Context()
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if trusted, _ := e.vars[caddyhttp.TrustedProxyVarKey].(bool); !ok || !trusted || server.TrustedProxiesStrict > 0 {
		return false
	}
	taken, err := netip.ParseAddr(e.clientIP())
	if err != nil {
		return false
	}
	for _, field := range server.ClientIPHeaders {
		addresses := addressesIn(e.http.Header.Values(field))
		differs := func(addr netip.Addr) bool { return addr != taken && !isTrusted(ctx, server, addr) }
		if len(addresses) > maxChain || slices.ContainsFunc(addresses, differs) {
			return true
		}
	}
	return false
}

// isTrusted reports whether a server trusts a proxy of an address. Only Caddy knows, and
// it says so of the peer of a request.
func isTrusted(ctx context.Context, server *caddyhttp.Server, addr netip.Addr) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return false
	}
	r.RemoteAddr = netip.AddrPortFrom(addr, 0).String()
	r = caddyhttp.PrepareRequest(r, caddy.NewEmptyReplacer(), nil, server)
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

const strictProxies = "`trusted_proxies_strict` beside `trusted_proxies`, in `servers` of the global options"

// noteClaim tells operators, once, that clients choose their addresses.
func (a *shared) noteClaim() {
	a.claims.Do(func() {
		a.warn("a request has come through a trusted proxy with several addresses, of which Caddy takes the first: clients can write that themselves, and be whoever they like. Nobody is banned by such an address",
			strictProxies)
	})
}
