package enforce

import (
	"crypto/tls"
	"net/netip"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/rules"
)

// manyHandshakes is how many TLS connections of banned addresses a second are too many to be refused behind TLS.
const manyHandshakes = 100

// handshakes watches for refusals that a listener could give before TLS, where they cost a tenth.
type handshakes struct {
	mu      sync.Mutex // nobody waits for it: what comes at the same time isn't counted
	second  int64      // guarded by mu
	seen    map[*tls.ConnectionState]struct{}
	advised bool // guarded by mu: seen is no longer needed
}

// note notes a connection, and reports once that it is one too many in its second.
func (s *handshakes) note(conn *tls.ConnectionState, now time.Time) bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	if s.advised {
		return false
	}
	if second := now.Unix(); second != s.second {
		s.second, s.seen = second, make(map[*tls.ConnectionState]struct{})
	}
	if s.seen[conn] = struct{}{}; len(s.seen) <= manyHandshakes {
		return false
	}
	s.advised, s.seen = true, nil
	return true
}

// NoteHandshake notes a request that an operator's rule or a block list refuses, and tells the operator once about the
// listener wrapper if many come over connections that it would close: over TCP, straight from a banned address.
func (h *Handler) NoteHandshake(v *Verdict, clock func() time.Time) {
	cfg, r := h.Config, v.Http
	if v.Refusal.Policy != h.BannedByOperator || r.TLS == nil || r.ProtoMajor > 2 || len(cfg.Doors) > 0 {
		return
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return
	}
	now := clock()
	if by := cfg.AddressRule(peer.Addr(), now); by == nil || by.Action != rules.Ban || !cfg.handshakes.note(r.TLS, now) {
		return
	}
	_ = cfg.Advice.Give(h.Log, advice.Advice{Kind: advice.BeforeTLS, // a warning is no error
		Problem: "banned addresses made more than 100 TLS handshakes in a second; closing their connections before TLS costs a tenth",
		Fix:     advice.ListenerWrapper})
}
