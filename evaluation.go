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

// evaluation is what one request takes from which limits: the translation between
// HTTP and the engine. It is reused.
type evaluation struct {
	http        *http.Request
	repl        *caddy.Replacer
	vars        map[string]any // Caddy's variables of the request
	credentials credentials
	denied      error          // why a zone turns it away, whatever others count; or nil
	client      *client        // whom it is from; nil where that doesn't matter
	subject     *engine.Client // the same by what it has done; nil where that doesn't matter, or if it is nobody in particular
	trapBan     time.Duration  // how long a trap bans for that the request went into; 0 if it went into none that does
	trapped     bool           // whether it went into any trap
	debits      []engine.Draw
	policies    []*policy // what each draw is of
	keys        []byte    // the text of all keys
}

var evaluations = sync.Pool{New: func() any { return new(evaluation) }}

// maxPooledKeys bounds the memory that a reused request holds on to.
const maxPooledKeys = 4 << 10

func newEvaluation(r *http.Request) *evaluation {
	e := evaluations.Get().(*evaluation)
	ctx := r.Context()
	e.http = r
	e.repl = ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	e.vars = ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	return e
}

// release gives the request back for reuse. Nothing of it may be used after. What
// its slices point to stays in memory until the pool is emptied, which the next
// garbage collections do; clearing them would cost every request more than that.
func (e *evaluation) release() {
	if cap(e.keys) > maxPooledKeys {
		e.keys = nil
	}
	e.http, e.repl, e.vars, e.credentials, e.denied = nil, nil, nil, credentials{}, nil
	e.client, e.subject, e.trapBan, e.trapped = nil, nil, 0, false
	e.debits, e.policies, e.keys = e.debits[:0], e.policies[:0], e.keys[:0]
	evaluations.Put(e)
}

// charge notes what the request takes from the limits of a zone. It returns the
// limit, if any, that refuses the request whatever was counted.
func (e *evaluation) charge(z *Zone) (shut *policy, err error) {
	set, err := e.limits(z)
	if err != nil || set == nil {
		return nil, err
	}
	if z.deniesAll {
		return set.policies[0], nil
	}
	from := len(e.keys)
	switch v, err := e.appendKey(z); {
	case err != nil || v == keySkipped:
		return nil, err
	case v == keyDenied:
		return set.policies[0], nil
	}
	e.shorten(from)
	key := e.keys[from:] // which stays as it is when further keys need more room
	if z.per == perClient {
		key = e.identify().self.Key
	}
	cost, err := e.cost(z)
	if err != nil {
		return nil, err
	}
	for _, p := range set.policies {
		d := engine.Draw{Limit: &p.Limit, Key: key, Cost: cost}
		if p.fair != nil && e.subject != nil && (z.per == perClient || e.client.kind == identity.APIKey) {
			d.Client, d.Fair = e.subject, p.fair
		}
		e.debit(p, d)
	}
	if z.per == perClient {
		e.chargeShared(set, cost)
	}
	return nil, nil
}

func (e *evaluation) debit(p *policy, draw engine.Draw) {
	e.debits = append(e.debits, draw)
	e.policies = append(e.policies, p)
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
func (h *Handler) decide(e *evaluation) (*response, error) {
	shut, err := h.collect(e)
	if err != nil {
		return nil, err
	}
	if e.trapBan > 0 {
		return h.refuseTrapped(e), nil
	}
	if shut != nil {
		return h.refuseAll(shut), nil
	}
	if len(e.debits) == 0 {
		if e.denied == nil {
			h.none.request()
		}
		if e.subject == nil {
			return nil, e.denied
		}
	}
	d, ok := h.app.decide(e.http.Context(), e.subject, e.debits)
	if !ok {
		return nil, e.denied // its configuration never ran; the next one limits the client
	}
	e.count(d)
	h.countByKind(e, d)
	if d.Reason == engine.Abandoned {
		return nil, errAbandoned
	}
	if d.Allowed && e.denied != nil {
		return nil, e.denied
	}
	return h.answer(e, d), nil
}

// answer returns how a request stands after a decision, or nil if there is
// nothing to say of it.
func (h *Handler) answer(e *evaluation, d engine.Decision) *response {
	if d.Allowed && len(e.debits) == 0 {
		return nil
	}
	p := newResponse(e, h.style)
	switch {
	case d.Reason == engine.Banned:
		p.refusal = &refusal{policy: h.banned, retry: h.jittered(d), fresh: d.Fresh}
	case !d.Allowed:
		p.refusal = &refusal{policy: e.policies[d.Draw], retry: h.jittered(d), fresh: d.Fresh}
	}
	return p
}

// collect notes what the request takes from the zones it belongs to: also if one of
// them denies it for its API key, so that floods of bad keys can be limited by
// another. It returns the limit, if any, that refuses the request whatever was
// counted.
func (h *Handler) collect(e *evaluation) (shut *policy, err error) {
	if exempt, err := h.exempts(e); exempt || err != nil {
		return nil, err
	}
	early := isEarly(e.http)
	if early && h.clients {
		return nil, errTooEarly
	}
	if err := h.checkConduct(e); err != nil {
		return nil, err
	}
	for _, z := range h.zones {
		matches, err := z.matches(e)
		if err != nil {
			return nil, err
		}
		if !matches {
			continue
		}
		if early {
			return nil, errTooEarly
		}
		shut, err := e.charge(z)
		if err != nil {
			e.deny(z, err)
		}
		switch {
		case err != nil && !isDenial(err):
			return nil, err
		case shut != nil:
			return shut, e.denied
		}
	}
	return nil, nil
}

// exempts tells whether no zone is to look at the request.
func (h *Handler) exempts(e *evaluation) (bool, error) {
	if len(h.exempt) == 0 {
		return false, nil
	}
	return h.exempt.AnyMatchWithError(e.http)
}

// isEarly tells whether a request has come before the handshake of its connection
// was complete, as TLS early data over QUIC. It may be a copy of somebody else's,
// and what it says to be its address may be anybody's: in a single packet nobody
// has to receive an answer there.
func isEarly(r *http.Request) bool { return r.TLS != nil && !r.TLS.HandshakeComplete }

// errTooEarly is why nothing can be counted yet for a request.
var errTooEarly = errors.New("the address that the request is from is not confirmed yet")

// matches tells whether a request belongs to the zone.
func (z *Zone) matches(r *evaluation) (bool, error) {
	return z.matchers.AnyMatchWithError(r.http)
}

// deny notes that a zone denies the request.
func (e *evaluation) deny(z *Zone, err error) {
	z.meter.request()
	if e.denied == nil {
		e.denied = err
		z.meter.decline()
	}
}

// refuseAll returns how a request stands that a zone refuses without counting.
func (h *Handler) refuseAll(by *policy) *response {
	by.zone.meter.request()
	by.zone.meter.decline()
	return &response{style: h.style, refusal: &refusal{policy: by, retry: limiter.Never}}
}

// refuseTrapped refuses a visit to a trap that bans: as any request of the client that
// it has banned, and if that may not be banned, all the same.
func (h *Handler) refuseTrapped(e *evaluation) *response {
	d, ok := h.app.decide(e.http.Context(), e.subject, nil)
	if !ok || d.Reason != engine.Banned {
		d = engine.Decision{Reason: engine.Banned, Retry: e.trapBan}
	}
	h.countByKind(e, d)
	return h.answer(e, d)
}

// countByKind counts a decision by what its client is known by, and notes who
// comes from where.
func (h *Handler) countByKind(e *evaluation, d engine.Decision) {
	c := e.client
	if c == nil || !c.known {
		return
	}
	if !h.DisableMetrics {
		clientMeters[c.kind].count(d)
	}
	h.app.notePressure(c, d, d.Reason == engine.Blocked && e.policies[d.Draw].of != nil)
}

// costRule returns the first price that is for the request.
func (e *evaluation) costRule(z *Zone) (*costRule, error) {
	for i := range z.costs {
		p := &z.costs[i]
		if matches, err := p.matchers.AnyMatchWithError(e.http); matches || err != nil {
			return p, err
		}
	}
	return &z.cost, nil
}
