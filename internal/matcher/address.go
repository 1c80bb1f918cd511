package matcher

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A server that trusts proxies without `trusted_proxies_strict` takes the first address of
// X-Forwarded-For as the client's. Where the proxy appends to the field it received, the client
// wrote that address. Such an address is claimed: it is counted as always, but it gets no
// violations, no bans and no exemptions, and is no verified crawler's.
//
// A server that doesn't trust the proxy in front of it takes the proxy's address for that of each client, and that is
// often one for which exemptions are: those don't hold for it.

// IsEarly reports whether a request came before the handshake of its connection was complete, as
// TLS early data over QUIC. It may be a replay, and its address may be forged, because a single
// packet needs no reply to the sender.
func IsEarly(r *http.Request) bool { return r.TLS != nil && !r.TLS.HandshakeComplete }

// errEarly is the answer to an early request by matchers of addresses, as by Caddy's own.
var errEarly = caddyhttp.Error(http.StatusTooEarly,
	errors.New("the handshake isn't complete, so the address may be forged"))

// maxChain bounds how many addresses of a field are examined.
const maxChain = 16

// clientIP returns the client's address as Caddy determined it, or "".
func clientIP(r *http.Request) string {
	ip, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return ip
}

// IsClaimed reports whether the client may have chosen its address: the header fields that Caddy
// reads it from hold another address that isn't a trusted proxy's, or what a proxy wrote there is no
// address, which Caddy skips for one that the client wrote.
func IsClaimed(r *http.Request) bool {
	ctx := r.Context()
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if trusted, _ := caddyhttp.GetVar(ctx, caddyhttp.TrustedProxyVarKey).(bool); !ok || !trusted {
		return false
	}
	taken, err := netip.ParseAddr(clientIP(r))
	if err != nil {
		return false
	}
	if server.TrustedProxiesStrict > 0 {
		return skipsParts(r.Header, server.ClientIPHeaders, taken)
	}
	for _, field := range server.ClientIPHeaders {
		values := r.Header.Values(field)
		addresses := AddressesIn(values)
		if slices.Contains(addresses, taken) && len(addresses) < countParts(values) {
			return true
		}
		differs := func(addr netip.Addr) bool { return addr != taken && !isTrusted(ctx, server, addr) }
		if len(addresses) > maxChain || slices.ContainsFunc(addresses, differs) {
			return true
		}
	}
	return false
}

// skipsParts reports whether something that is no address stands to the right of the address that a
// strict server took.
func skipsParts(h http.Header, fields []string, taken netip.Addr) bool {
	skipped := false
	for _, field := range fields {
		for _, value := range slices.Backward(h.Values(field)) {
			for _, part := range slices.Backward(strings.Split(value, ",")) {
				switch found := AddressesIn([]string{part}); {
				case len(found) == 0:
					skipped = true
				case found[0] == taken:
					return skipped
				}
			}
		}
	}
	return false
}

// countParts returns the number of parts of a list in several lines.
func countParts(values []string) (n int) {
	for _, value := range values {
		n += strings.Count(value, ",") + 1
	}
	return n
}

// forwarding are header fields in which proxies send the address of a client.
var forwarding = []string{"X-Forwarded-For", "X-Real-Ip", "Cf-Connecting-Ip"}

// IsRelayed reports whether a request comes from a private address that the server doesn't trust as a proxy, for one
// of the Internet: then the address is that of a proxy.
func IsRelayed(r *http.Request) bool {
	ctx := r.Context()
	peer, err := netip.ParseAddr(clientIP(r))
	if trusted, _ := caddyhttp.GetVar(ctx, caddyhttp.TrustedProxyVarKey).(bool); err != nil || trusted || IsOfInternet(peer) {
		return false
	}
	return slices.ContainsFunc(forwarding, func(field string) bool {
		return slices.ContainsFunc(AddressesIn(r.Header[field]), IsOfInternet)
	})
}

// IsOfInternet reports whether an address isn't one of a machine or of a network of one's own.
func IsOfInternet(addr netip.Addr) bool {
	addr = addr.Unmap()
	return !addr.IsLoopback() && !addr.IsPrivate() && !addr.IsLinkLocalUnicast() && !addr.IsUnspecified() && !shared.Contains(addr)
}

// shared is the network of carriers (RFC 6598), which tunnels such as Tailscale use.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// unclaimed matches requests whose client can't have chosen its address, nor forged it, and whose address is its own.
type unclaimed struct{}

// MatchWithError implements [caddyhttp.RequestMatcherWithError].
func (unclaimed) MatchWithError(r *http.Request) (bool, error) {
	return !IsEarly(r) && !IsClaimed(r) && !IsRelayed(r), nil
}

// requireUnclaimed makes sets that may use the client's address match no claimed one.
func requireUnclaimed(sets caddyhttp.MatcherSets) {
	for i, set := range sets {
		if readsAddress(set) {
			sets[i] = append(slices.Clone(set), unclaimed{})
		}
	}
}

// readsAddress reports whether the result of a matcher set may depend on the client's address. It is
// true for variables, which may have been derived from it, and for unknown matchers.
func readsAddress(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(m any) bool {
		switch m := m.(type) {
		case *caddyhttp.MatchHost, *caddyhttp.MatchMethod, *caddyhttp.MatchPath, *caddyhttp.MatchPathRE,
			*caddyhttp.MatchQuery, *caddyhttp.MatchHeader,
			*caddyhttp.MatchHeaderRE, *caddyhttp.MatchProtocol, *caddyhttp.MatchTLS, *caddyhttp.MatchRemoteIP, *Endpoint, *SignedBot, unambiguous:
			return false
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, readsAddress)
		}
		return true
	})
}

// nowhere is an address that no client has.
const nowhere = "0.0.0.0"

// orNowhere matches if a set matches a request, or would if its claimed address were none: a set may
// exclude addresses inside an expression, where nobody else can tell.
type orNowhere struct{ set caddyhttp.MatcherSet }

// MatchWithError implements [caddyhttp.RequestMatcherWithError].
func (o orNowhere) MatchWithError(r *http.Request) (bool, error) {
	matches, err := o.set.MatchWithError(r)
	if matches || err != nil || !IsClaimed(r) {
		return matches, err
	}
	defer caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, clientIP(r))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, nowhere)
	return o.set.MatchWithError(r)
}

// computes reports whether a matcher may negate what it asks, unlike a list of addresses.
func computes(m any) bool {
	switch m.(type) {
	case *caddyhttp.MatchExpression, *caddyhttp.VarsMatcher, *caddyhttp.MatchVarsRE:
		return true
	}
	return false
}

// AddressesIn returns the addresses in a header field, as Caddy reads them.
func AddressesIn(values []string) (addresses []netip.Addr) {
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

// isTrusted reports whether a server trusts a proxy's address. Only Caddy knows that, and only for
// the peer of a request.
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

// IsHTTPS reports whether a request came over HTTPS: to this server, or to a proxy in front that the
// server trusts and that says so in X-Forwarded-Proto.
func IsHTTPS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	schemes := r.Header["X-Forwarded-Proto"]
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted && len(schemes) > 0 && strings.EqualFold(schemes[len(schemes)-1], "https") // as for reverse_proxy
}
