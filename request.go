package tally

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
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

// verdict says what became of a request in one zone, before anything is counted.
type verdict int

const (
	counted verdict = iota
	skipped
	denied
)

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

// appendKey appends what the request is counted by in a zone.
func (rq *request) appendKey(z *Zone) (verdict, error) {
	switch z.per {
	case perIP:
		rq.appendIP(z)
	case perEveryone:
		rq.keys = append(append(rq.keys, kindEveryone), z.static...)
	case perAPIKey:
		return counted, rq.appendCaller(z)
	case perKey:
		return rq.appendText(z), nil
	}
	return counted, nil
}

// appendIP appends the client's network.
func (rq *request) appendIP(z *Zone) {
	ipv4, ipv6 := z.app.prefixes(z.IPv4Prefix, z.IPv6Prefix)
	network, ok := identity.Prefix(rq.clientIP(), ipv4, ipv6)
	if !ok {
		rq.keys = append(rq.keys, kindUnknown)
		return
	}
	rq.keys = identity.AppendPrefix(append(rq.keys, kindIP), network)
}

// prefixes returns how many bits of an address tell clients apart, given what a
// zone says of it.
func (a *App) prefixes(ipv4, ipv6 int) (int, int) {
	return cmp.Or(ipv4, a.IPv4Prefix, identity.DefaultIPv4Prefix), cmp.Or(ipv6, a.IPv6Prefix, identity.DefaultIPv6Prefix)
}

// clientIP returns the client's address as Caddy determined it, or "".
func (rq *request) clientIP() string {
	ip, _ := rq.vars[caddyhttp.ClientIPVarKey].(string)
	return ip
}

// appendText appends the value of the zone's key.
func (rq *request) appendText(z *Zone) verdict {
	text := rq.keyText(z)
	if text == z.emptyForm {
		switch z.OnEmptyKey {
		case "", emptyIP:
			rq.appendIP(z)
			return counted
		case emptySkip:
			return skipped
		case emptyDeny:
			return denied
		}
	}
	rq.keys = append(append(rq.keys, kindText), z.shortenIP(text)...)
	return counted
}

// shortenIP replaces a key that is an IP address by its network, if the zone
// says so.
func (z *Zone) shortenIP(text string) string {
	if z.IPv4Prefix == 0 && z.IPv6Prefix == 0 {
		return text
	}
	whole := func(bits int) int {
		if bits == 0 {
			return -1
		}
		return bits
	}
	network, ok := identity.Prefix(text, whole(z.IPv4Prefix), whole(z.IPv6Prefix))
	if !ok {
		return text
	}
	return network.String()
}

// longKey is the length from which on a key is replaced by a digest, so that
// nobody can fill the memory with long keys.
const longKey = 128

// shorten replaces the last key, which begins at from, by its digest if it is
// long.
func (rq *request) shorten(from int) {
	if key := rq.keys[from:]; len(key) > longKey {
		sum := sha256.Sum256(key)
		rq.keys = append(append(rq.keys[:from], kindDigest), sum[:]...)
	}
}

// count counts a decision.
func (rq *request) count(d engine.Decision) {
	var last *Zone
	for i, p := range rq.of {
		if p.zone != last {
			last = p.zone
			last.meter.request()
			last.meter.waited(d.Waited)
		}
		switch {
		case d.Allowed:
			p.meter.allow()
		case d.Reason == engine.Banned:
			p.meter.refuse(d.Reason)
		case i == d.Draw:
			p.meter.refuse(d.Reason)
			if d.Reason != engine.Abandoned {
				p.zone.meter.decline()
			}
		}
	}
}

// keyOf returns what the request was counted by for a policy, or nil.
func (rq *request) keyOf(p *policy) []byte {
	if i := slices.Index(rq.of, p); i >= 0 {
		return rq.draws[i].Key
	}
	return nil
}

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
