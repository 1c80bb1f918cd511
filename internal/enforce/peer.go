package enforce

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// peerRefusals is how many refusals of one peer in a row must name another address, before the peer is
// taken for a proxy.
const peerRefusals = 20

// Peer watches the refusals of a server for a peer that isn't trusted and is probably a proxy: all visitors that
// come through it share one count. A visitor can write the field as well, so that the
// advice is a question.
//
// Only refused requests are examined, so that others cost nothing. An untrusted proxy has enough of
// them, because its visitors use up one limit together. Concurrent refusals may be counted as fewer.
type Peer struct {
	server string
	last   atomic.Pointer[peerRun]
}

// peerRun is the last refusals of a peer, which all named another address.
type peerRun struct {
	addr  netip.Addr
	n     atomic.Int32
	asked bool // it was long enough: it is the last run of its server
}

// peers has the peers of all servers, by their listeners: a question is asked once in the life of the
// process.
var peers sync.Map

// PeerOf returns the peer of the server of a handler's ctx. Advice that was given about it before a reload still
// holds, unless the server may trust it now.
func (cfg *Config) PeerOf(ctx caddy.Context) *Peer {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return nil
	}
	listen := fmt.Sprint(server.Listen)
	value, ok := peers.Load(listen)
	if !ok {
		created := &Peer{server: listen}
		created.last.Store(new(peerRun))
		value, _ = peers.LoadOrStore(listen, created)
	}
	p := value.(*Peer)
	switch run := p.last.Load(); {
	case run.asked && mayTrust(server, run.addr):
		p.last.Store(new(peerRun))
	case run.asked:
		cfg.Advice.Keep(p.advice(run.addr))
	}
	return p
}

// mayTrust reports whether a server trusts an address as a proxy, or proxies that its config doesn't name.
func mayTrust(server *caddyhttp.Server, addr netip.Addr) bool {
	ranges := routing.TrustedRanges(server)
	return routing.TrustsProxies(server) && len(ranges) == 0 || slices.ContainsFunc(ranges, func(text string) bool {
		network, err := caddyhttp.CIDRExpressionToPrefix(text)
		return err == nil && network.Contains(addr)
	})
}

// watch notes a refused request, and reports whether its peer has become a probable proxy. Once that has
// happened, it takes one atomic load.
func (p *Peer) watch(r *http.Request) (proxy netip.Addr, found bool) {
	if p == nil {
		return proxy, false
	}
	run := p.last.Load()
	if run.asked {
		return proxy, false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := peer.Addr().Unmap()
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	if err != nil || trusted || !addr.IsLoopback() && !addr.IsPrivate() {
		return proxy, false
	}
	named := matcher.AddressesIn(slices.Concat(r.Header["X-Forwarded-For"], r.Header["X-Real-Ip"]))
	switch isProxied := len(named) > 0 && named[0] != addr; {
	case !isProxied && addr == run.addr:
		p.last.CompareAndSwap(run, new(peerRun))
	case isProxied && addr != run.addr:
		next := &peerRun{addr: addr}
		next.n.Store(1)
		p.last.CompareAndSwap(run, next)
	case isProxied:
		return addr, run.n.Add(1) == peerRefusals && p.last.CompareAndSwap(run, &peerRun{addr: addr, asked: true})
	}
	return proxy, false
}

// advice returns the question whether an address is a proxy.
func (p *Peer) advice(proxy netip.Addr) advice.Advice {
	return advice.Advice{
		Problem: fmt.Sprintf("is %v a proxy of yours? All its visitors share one count; if visitors come from there, they could write any address", proxy),
		Fix:     fmt.Sprintf("trusted_proxies static %v and trusted_proxies_strict", proxy), Server: []string{p.server},
		Kind: advice.UntrustedProxy,
	}
}

// NotePeer notes a refused request, and asks the operator about a peer that is probably a proxy, once per
// server.
func (h *Handler) NotePeer(r *http.Request) {
	if proxy, found := h.Peer.watch(r); found {
		_ = h.Config.Advice.Give(h.Log, h.Peer.advice(proxy)) // a warning is no error
	}
}

// neighbors is how many visitors of trusted networks there must be, before the operator is asked about them: one or
// two may be proxies.
const neighbors = 3

// NeighborsOf returns what watches the server of a handler's ctx for visitors that it takes for proxies, or nil if it
// trusts none.
func (cfg *Config) NeighborsOf(ctx caddy.Context) *Never {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || !routing.TrustsProxies(server) {
		return nil
	}
	listen := fmt.Sprint(server.Listen)
	return cfg.Never("neighbors "+listen+fmt.Sprint(routing.TrustedRanges(server)), neighbors, 0, advice.Advice{
		Problem: "visitors of your own network are taken for proxies: each may write any address, or all share one count",
		Fix:     "trusted_proxies static 172.18.0.2 and trusted_proxies_strict, with your proxy's address alone",
		Server:  []string{listen}, Kind: advice.Address,
	})
}

// noteNeighbor notes a browser in a private network whose request has no other address than trusted ones: those of
// its peer, or the last one that a proxy has added. Programs that check a server's health aren't browsers.
func (e *Evaluation) noteNeighbor() {
	n, r := e.Handler.Neighbors, e.Http
	if n == nil || n.asked.Load() || e.forecasts || !strings.HasPrefix(strings.TrimPrefix(r.RemoteAddr, "["), e.ClientIP()) {
		return
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	visitor := peer.Addr()
	if trusted, _ := e.Vars[caddyhttp.TrustedProxyVarKey].(bool); !trusted || e.ClientIP() != visitor.String() ||
		!strings.HasPrefix(httpfield.First(r.Header["User-Agent"]), "Mozilla/5.0 ") {
		return
	}
	if named := matcher.AddressesIn(r.Header["X-Forwarded-For"]); len(named) > 0 {
		visitor = named[len(named)-1]
	}
	if visitor.Unmap().IsPrivate() {
		e.Handler.Config.noteOnce(n, visitor.String())
	}
}
