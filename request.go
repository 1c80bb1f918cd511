package tally

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// request is what one request takes from which limits: the translation between
// HTTP and the engine. It is reused.
type request struct {
	http  *http.Request
	repl  *caddy.Replacer
	draws []engine.Draw
	of    []drawn // what each draw is of
	keys  []byte  // the text of all keys
}

// drawn is the zone and policy that a draw is made for.
type drawn struct {
	zone   *Zone
	policy *policy
	key    keyRange
}

// keyRange is where in request.keys a key stands.
type keyRange struct{ from, to int }

var requests = sync.Pool{New: func() any { return new(request) }}

// maxPooledKeys bounds the memory that a reused request holds on to.
const maxPooledKeys = 4 << 10

func newRequest(r *http.Request) *request {
	rq := requests.Get().(*request)
	rq.http = r
	rq.repl = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	return rq
}

// release gives the request back for reuse. Nothing of it may be used after. What
// its slices point to stays in memory until the pool is emptied, which the next
// garbage collections do; clearing them would cost every request more than that.
func (rq *request) release() {
	if cap(rq.keys) > maxPooledKeys {
		rq.keys = nil
	}
	*rq = request{draws: rq.draws[:0], of: rq.of[:0], keys: rq.keys[:0]}
	requests.Put(rq)
}

// verdict says what became of a request in one zone, before anything is counted.
type verdict int

const (
	counted verdict = iota
	skipped
	denied
)

// draw notes what the request takes from the limits of a zone.
func (rq *request) draw(z *Zone) verdict {
	if z.shut {
		return denied
	}
	from := len(rq.keys)
	if v := rq.appendKey(z); v != counted {
		return v
	}
	key := rq.shorten(keyRange{from, len(rq.keys)})
	cost := rq.cost(z)
	for _, p := range z.policies {
		rq.draws = append(rq.draws, engine.Draw{Limit: &p.Limit, Cost: cost})
		rq.of = append(rq.of, drawn{zone: z, policy: p, key: key})
	}
	return counted
}

// bind points the draws to their keys, once no more keys are added.
func (rq *request) bind() {
	for i := range rq.draws {
		key := rq.of[i].key
		rq.draws[i].Key = rq.keys[key.from:key.to]
	}
}

// The first byte of a key says what kind of value it is, so that no key of one
// kind equals one of another.
const (
	kindIP       = 'i' // a network
	kindUnknown  = 'u' // the clients without an IP address
	kindText     = 'k' // the value of a key
	kindDigest   = 'd' // the SHA-256 of the value of a long key
	kindEveryone = 'e' // the one of a zone without a key
)

// appendKey appends what the request is counted by in a zone.
func (rq *request) appendKey(z *Zone) verdict {
	switch z.per {
	case perIP:
		rq.appendIP(z)
	case perEveryone:
		rq.keys = append(append(rq.keys, kindEveryone), z.static...)
	case perKey:
		return rq.appendText(z)
	}
	return counted
}

// appendIP appends the client's network.
func (rq *request) appendIP(z *Zone) {
	ipv4, ipv6 := z.IPv4Prefix, z.IPv6Prefix
	if ipv4 == 0 {
		ipv4 = identity.DefaultIPv4Prefix
	}
	if ipv6 == 0 {
		ipv6 = identity.DefaultIPv6Prefix
	}
	network, ok := identity.Prefix(rq.clientIP(), ipv4, ipv6)
	if !ok {
		rq.keys = append(rq.keys, kindUnknown)
		return
	}
	rq.keys = identity.AppendPrefix(append(rq.keys, kindIP), network)
}

// clientIP returns the client's address as Caddy determined it, or "".
func (rq *request) clientIP() string {
	ip, _ := caddyhttp.GetVar(rq.http.Context(), caddyhttp.ClientIPVarKey).(string)
	return ip
}

// appendText appends the value of the zone's key.
func (rq *request) appendText(z *Zone) verdict {
	text := rq.repl.ReplaceAll(z.Key, "")
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

// shorten replaces the last key by its digest if it is long.
func (rq *request) shorten(key keyRange) keyRange {
	if key.to-key.from <= longKey {
		return key
	}
	sum := sha256.Sum256(rq.keys[key.from:key.to])
	rq.keys = append(append(rq.keys[:key.from], kindDigest), sum[:]...)
	return keyRange{key.from, len(rq.keys)}
}

// cost returns what the request costs in a zone: 1 where a placeholder holds no
// number from 0.
func (rq *request) cost(z *Zone) int64 {
	if z.costFrom == "" {
		return z.fixedCost
	}
	cost, err := strconv.ParseInt(strings.TrimSpace(rq.repl.ReplaceAll(z.costFrom, "")), 10, 64)
	switch {
	case cost < 0, err != nil && cost != math.MaxInt64: // which is what too large a number gives
		return 1
	}
	return cost
}

// count counts a decision.
func (rq *request) count(d engine.Decision) {
	var last *Zone
	for i, of := range rq.of {
		if of.zone != last {
			last = of.zone
			last.meter.request()
			last.meter.waited(d.Waited)
		}
		switch {
		case d.Allowed:
			of.policy.meter.allow()
		case i == d.Draw:
			of.policy.meter.refuse(d.Reason)
			if d.Reason != engine.Abandoned {
				of.zone.meter.decline()
			}
		}
	}
}

// keyText returns in words what the request was counted by for a policy, for
// operators who want to know.
func (rq *request) keyText(p *policy) string {
	for i, of := range rq.of {
		if of.policy != p {
			continue
		}
		key := rq.draws[i].Key
		switch key[0] {
		case kindIP:
			return identity.PrefixOf(key[1:]).String()
		case kindText, kindEveryone:
			return string(key[1:])
		case kindDigest:
			return "sha256:" + hex.EncodeToString(key[1:])
		}
	}
	return ""
}
