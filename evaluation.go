package tally

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// request is what one request takes from which limits: the translation between
// HTTP and the engine. It is reused.
type request struct {
	http    *http.Request
	repl    *caddy.Replacer
	vars    map[string]any // Caddy's variables of the request
	caller  caller
	denied  error          // why a zone turns it away, whatever others count; or nil
	client  *client        // whom it is from; nil where that doesn't matter
	stands  *engine.Client // the same by what it has done; nil where that doesn't matter, or if it is nobody in particular
	trapped time.Duration  // how long a trap bans for that the request went into; 0 if it went into none that does
	caught  bool           // whether it went into any trap
	draws   []engine.Draw
	of      []*policy // what each draw is of
	keys    []byte    // the text of all keys
}

var requests = sync.Pool{New: func() any { return new(request) }}

// maxPooledKeys bounds the memory that a reused request holds on to.
const maxPooledKeys = 4 << 10

func newRequest(r *http.Request) *request {
	rq := requests.Get().(*request)
	ctx := r.Context()
	rq.http = r
	rq.repl = ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	rq.vars = ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	return rq
}

// release gives the request back for reuse. Nothing of it may be used after. What
// its slices point to stays in memory until the pool is emptied, which the next
// garbage collections do; clearing them would cost every request more than that.
func (rq *request) release() {
	if cap(rq.keys) > maxPooledKeys {
		rq.keys = nil
	}
	rq.http, rq.repl, rq.vars, rq.caller, rq.denied = nil, nil, nil, caller{}, nil
	rq.client, rq.stands, rq.trapped, rq.caught = nil, nil, 0, false
	rq.draws, rq.of, rq.keys = rq.draws[:0], rq.of[:0], rq.keys[:0]
	requests.Put(rq)
}

// draw notes what the request takes from the limits of a zone. It returns the
// limit, if any, that refuses the request whatever was counted.
func (rq *request) draw(z *Zone) (shut *policy, err error) {
	set, err := rq.limits(z)
	if err != nil || set == nil {
		return nil, err
	}
	if z.shut {
		return set.policies[0], nil
	}
	from := len(rq.keys)
	switch v, err := rq.appendKey(z); {
	case err != nil || v == skipped:
		return nil, err
	case v == denied:
		return set.policies[0], nil
	}
	rq.shorten(from)
	key := rq.keys[from:] // which stays as it is when further keys need more room
	if z.per == perClient {
		key = rq.whoIs().self.Key
	}
	cost, err := rq.cost(z)
	if err != nil {
		return nil, err
	}
	for _, p := range set.policies {
		d := engine.Draw{Limit: &p.Limit, Key: key, Cost: cost}
		if p.fair != nil && rq.stands != nil && (z.per == perClient || rq.client.kind == identity.APIKey) {
			d.Client, d.Fair = rq.stands, p.fair
		}
		rq.take(p, d)
	}
	if z.per == perClient {
		rq.drawShared(set, cost)
	}
	return nil, nil
}

func (rq *request) take(p *policy, draw engine.Draw) {
	rq.draws = append(rq.draws, draw)
	rq.of = append(rq.of, p)
}

// The first byte of a key says what kind of value it is, so that no key of one
// kind equals one of another.
const (
	kindIP          = 'i' // a network
	kindUnknown     = 'u' // the clients without an IP address
	kindText        = 'k' // the value of a key
	kindDigest      = 'd' // the SHA-256 of the value of a long key
	kindEveryone    = 'e' // the one of a zone without a key
	kindAPIKey      = 'a' // the client of an API key
	kindService     = 's' // the services of a tier
	kindSession     = 't' // the id of a session
	kindSolution    = 'o' // what a solution is known by
	kindFingerprint = 'f' // a network and what a client in it says of itself
)

// tellsAddress tells whether keys of a kind tell of the client's address.
func tellsAddress(kind byte) bool { return kind == kindIP || kind == kindFingerprint }

// keyText returns in words what a key is, for operators who want to know.
func keyText(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	switch key[0] {
	case kindIP:
		return identity.PrefixOf(key[1:]).String()
	case kindFingerprint:
		network, hash := key[1:len(key)-identity.FingerprintSize], key[len(key)-identity.FingerprintSize:]
		return identity.PrefixOf(network).String() + " " + hex.EncodeToString(hash)
	case kindSession: // shortened, so that it is good for nothing else
		sum := sha256.Sum256(key)
		return "session " + hex.EncodeToString(sum[:4])
	case kindText, kindEveryone, kindAPIKey, kindService:
		return string(key[1:])
	case kindDigest:
		return "sha256:" + hex.EncodeToString(key[1:])
	}
	return ""
}

// decide returns how the request stands with its limits, or nil if it belongs
// to no zone.
func (h *Handler) decide(rq *request) (*response, error) {
	shut, err := h.draw(rq)
	if err != nil {
		return nil, err
	}
	if rq.trapped > 0 {
		return h.refuseVisit(rq), nil
	}
	if shut != nil {
		return h.shutOut(shut), nil
	}
	if len(rq.draws) == 0 {
		if rq.denied == nil {
			h.none.request()
		}
		if rq.stands == nil {
			return nil, rq.denied
		}
	}
	d, ok := h.app.decide(rq.http.Context(), rq.stands, rq.draws)
	if !ok {
		return nil, rq.denied // its configuration never ran; the next one limits the client
	}
	rq.count(d)
	h.countClient(rq, d)
	if d.Reason == engine.Abandoned {
		return nil, errAbandoned
	}
	if d.Allowed && rq.denied != nil {
		return nil, rq.denied
	}
	return h.answer(rq, d), nil
}

// answer returns how a request stands after a decision, or nil if there is
// nothing to say of it.
func (h *Handler) answer(rq *request, d engine.Decision) *response {
	if d.Allowed && len(rq.draws) == 0 {
		return nil
	}
	p := newResponse(rq, h.style)
	switch {
	case d.Reason == engine.Banned:
		p.refusal = &refusal{policy: h.banned, retry: h.jittered(d), fresh: d.Fresh}
	case !d.Allowed:
		p.refusal = &refusal{policy: rq.of[d.Draw], retry: h.jittered(d), fresh: d.Fresh}
	}
	return p
}

// draw notes what the request takes from the zones it belongs to: also if one of
// them denies it for its API key, so that floods of bad keys can be limited by
// another. It returns the limit, if any, that refuses the request whatever was
// counted.
func (h *Handler) draw(rq *request) (shut *policy, err error) {
	if exempt, err := h.exempts(rq); exempt || err != nil {
		return nil, err
	}
	early := isEarly(rq.http)
	if early && h.clients {
		return nil, errTooEarly
	}
	if err := h.meet(rq); err != nil {
		return nil, err
	}
	for _, z := range h.zones {
		matches, err := z.matches(rq)
		if err != nil {
			return nil, err
		}
		if !matches {
			continue
		}
		if early {
			return nil, errTooEarly
		}
		shut, err := rq.draw(z)
		if err != nil {
			rq.deny(z, err)
		}
		switch {
		case err != nil && !isDenial(err):
			return nil, err
		case shut != nil:
			return shut, rq.denied
		}
	}
	return nil, nil
}

// exempts tells whether no zone is to look at the request.
func (h *Handler) exempts(rq *request) (bool, error) {
	if len(h.exempt) == 0 {
		return false, nil
	}
	return h.exempt.AnyMatchWithError(rq.http)
}

// isEarly tells whether a request has come before the handshake of its connection
// was complete, as TLS early data over QUIC. It may be a copy of somebody else's,
// and what it says to be its address may be anybody's: in a single packet nobody
// has to receive an answer there.
func isEarly(r *http.Request) bool { return r.TLS != nil && !r.TLS.HandshakeComplete }

// errTooEarly is why nothing can be counted yet for a request.
var errTooEarly = errors.New("the address that the request is from is not confirmed yet")

// matches tells whether a request belongs to the zone.
func (z *Zone) matches(r *request) (bool, error) {
	return z.matchers.AnyMatchWithError(r.http)
}

// deny notes that a zone denies the request.
func (rq *request) deny(z *Zone, err error) {
	z.meter.request()
	if rq.denied == nil {
		rq.denied = err
		z.meter.decline()
	}
}

// shutOut returns how a request stands that a zone refuses without counting.
func (h *Handler) shutOut(by *policy) *response {
	by.zone.meter.request()
	by.zone.meter.decline()
	return &response{style: h.style, refusal: &refusal{policy: by, retry: limiter.Never}}
}

// refuseVisit refuses a visit to a trap that bans: as any request of the client that
// it has banned, and if that may not be banned, all the same.
func (h *Handler) refuseVisit(rq *request) *response {
	d, ok := h.app.decide(rq.http.Context(), rq.stands, nil)
	if !ok || d.Reason != engine.Banned {
		d = engine.Decision{Reason: engine.Banned, Retry: rq.trapped}
	}
	h.countClient(rq, d)
	return h.answer(rq, d)
}

// countClient counts a decision by what its client is known by, and notes who
// comes from where.
func (h *Handler) countClient(rq *request, d engine.Decision) {
	c := rq.client
	if c == nil || !c.known {
		return
	}
	if !h.DisableMetrics {
		clientMeters[c.kind].count(d)
	}
	h.app.noteCrowd(c, d, d.Reason == engine.Blocked && rq.of[d.Draw].of != nil)
}

// price returns the first price that is for the request.
func (rq *request) price(z *Zone) (*price, error) {
	for i := range z.prices {
		p := &z.prices[i]
		if matches, err := p.matchers.AnyMatchWithError(rq.http); matches || err != nil {
			return p, err
		}
	}
	return &z.price, nil
}
