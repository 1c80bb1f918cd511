package enforce

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// peerRefusals is how many refusals of one peer in a row must name another address, before the peer is
// taken for a proxy.
const peerRefusals = 200

// Peer watches the refusals of a server without trusted proxies for a peer that is probably a proxy: all
// visitors that come through it share one count. A visitor can write the field as well, so that the
// advice is a question.
type Peer struct {
	server string
	warned atomic.Bool

	mu   sync.Mutex
	addr netip.Addr // the peer of the last refusals
	n    int        // the last of them that all named another address
}

// PeerOf returns the peer of the server of a handler's ctx, or nil if that server trusts proxies.
func (cfg *Config) PeerOf(ctx caddy.Context) *Peer {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || routing.TrustsProxies(server) {
		return nil
	}
	p, _ := cfg.peers.LoadOrStore(server, &Peer{server: fmt.Sprint(server.Listen)})
	return p.(*Peer)
}

// watch notes a refused request, and reports whether its peer has become a probable proxy. It takes one
// atomic load once that was told.
func (p *Peer) watch(r *http.Request) (proxy netip.Addr, found bool) {
	if p == nil || p.warned.Load() {
		return proxy, false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := peer.Addr().Unmap()
	if err != nil || !addr.IsLoopback() && !addr.IsPrivate() {
		return proxy, false
	}
	named := matcher.AddressesIn(append(r.Header["X-Forwarded-For"], r.Header["X-Real-Ip"]...))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(named) == 0 || named[0] == addr || addr != p.addr {
		p.addr, p.n = addr, 0
	}
	if len(named) > 0 && named[0] != addr {
		p.n++
	}
	return addr, p.n >= peerRefusals && !p.warned.Swap(true)
}

// NotePeer notes a refused request, and asks the operator about a peer that is probably a proxy, once per
// server.
func (h *Handler) NotePeer(r *http.Request) {
	if proxy, found := h.Peer.watch(r); found {
		_ = h.App.Advice.Give(h.Log, advice.Advice{ // a warning is no error
			Problem: fmt.Sprintf("is %v a proxy of yours? All its visitors share one count; if visitors come from there, they could write any address", proxy),
			Fix:     fmt.Sprintf("trusted_proxies static %v and trusted_proxies_strict", proxy), Server: []string{h.Peer.server}, See: "docs/advice.md#who-is-the-client",
		})
	}
}
