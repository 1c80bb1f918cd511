package enforce

import (
	"crypto/sha256"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// The values of Zone.Per.
const (
	PerIP       = "ip"
	PerEveryone = "everyone"
	PerKey      = "key"
	PerClient   = "client"
	PerAPIKey   = "api_key"
)

// The values of Zone.OnEmptyKey.
const (
	EmptyIP    = "ip"
	EmptyShare = "share"
	EmptySkip  = "skip"
	EmptyDeny  = "deny"
)

// CountsClients reports whether the zone counts single clients, as opposed to a key that different
// people can share.
func (z *Zone) CountsClients() bool { return z.Per == PerClient || z.Per == PerAPIKey }

// keyVerdict is a zone's action for a request because of its key, before it counts.
type keyVerdict int

const (
	keyFound keyVerdict = iota
	keySkipped
	keyDenied
)

// appendKey appends the request's key in a zone.
func (z *Zone) appendKey(e *Evaluation) (keyVerdict, *answer.Denial) {
	switch z.Per {
	case PerIP:
		z.appendIP(e)
	case PerEveryone:
		if z.Challenges && e.Client != nil && e.identify().IsVerified() {
			return keySkipped, nil // a session is the way out
		}
		e.Keys = append(append(e.Keys, identity.TagEveryone), z.Static...)
	case PerAPIKey:
		return keyFound, z.appendAPIKey(e)
	case PerKey:
		return z.appendText(e), nil
	case PerClient: // its key is that of [Evaluation.identify]
	default:
		panic("enforce: no key for zones per " + z.Per) // or all their requests would share one count
	}
	return keyFound, nil
}

// appendAPIKey appends the client of the request's API key, or the network of a client that may
// pass without a key.
func (z *Zone) appendAPIKey(e *Evaluation) *answer.Denial {
	c := e.authenticate(e.Handler.Config)
	switch {
	case c.Service:
		e.Keys = append(append(e.Keys, identity.TagService), c.Tier...)
	case c.Name != "":
		e.Keys = append(append(e.Keys, identity.TagAPIKey), c.Name...)
	case c.Denied == nil:
		z.appendIP(e)
	}
	return c.Denied
}

// appendIP appends the client's network.
func (z *Zone) appendIP(e *Evaluation) {
	network, ok := z.network(e)
	if !ok {
		e.Keys = append(e.Keys, identity.TagUnknown)
		return
	}
	e.Keys = identity.AppendPrefix(append(e.Keys, identity.TagNetwork), network)
}

// network returns the client's network, and false if its address isn't known.
func (z *Zone) network(e *Evaluation) (netip.Prefix, bool) {
	ipv4, ipv6 := e.Handler.Config.Prefixes(z.IPv4Prefix, z.IPv6Prefix)
	return identity.Prefix(e.ClientIP(), ipv4, ipv6)
}

// appendText appends the value of the zone's key.
func (z *Zone) appendText(e *Evaluation) keyVerdict {
	text := z.keyText(e)
	e.note(z.Filled, text != z.EmptyForm)
	if text == z.EmptyForm {
		switch z.OnEmptyKey {
		case "", EmptyIP:
			z.appendIP(e)
			return keyFound
		case EmptySkip:
			return keySkipped
		case EmptyDeny:
			return keyDenied
		}
	}
	e.Keys = append(append(e.Keys, identity.TagText), z.ShortenIP(text)...)
	return keyFound
}

// ShortenIP replaces a key that is an IP address by its network, if the zone has prefix lengths.
func (z *Zone) ShortenIP(text string) string {
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

// LongKey is the length from which a key is replaced by a digest, so that long keys can't fill the
// memory.
const LongKey = 128

// shorten replaces the last key, which begins at from, by its digest if it is long.
func (e *Evaluation) shorten(from int) {
	if key := e.Keys[from:]; len(key) > LongKey {
		sum := sha256.Sum256(key)
		e.Keys = append(append(e.Keys[:from], identity.TagDigest), sum[:]...)
	}
}

// Prefixes of placeholders with values that a client can spell in several ways.
const (
	hostLabels  = "http.request.host.labels."
	headerField = "http.request.header."
)

// hostPlaceholders hold the name of a host.
var hostPlaceholders = []string{"http.request.host", "http.request.tls.server_name"}

// NeedsOneSpelling reports whether a key has placeholders with several spellings of one value.
func NeedsOneSpelling(key string) bool {
	return slices.ContainsFunc(routing.PlaceholderNames(key), func(name string) bool {
		return bodyfield.IsField(name) || slices.Contains(hostPlaceholders, name) ||
			strings.HasPrefix(name, hostLabels) || strings.HasPrefix(name, headerField)
	})
}

// keyText returns the value of the zone's key. It is the same for all spellings of a host and of a field of the body,
// and without white space around a header field's value.
func (z *Zone) keyText(e *Evaluation) string {
	if !z.OneSpelling {
		return e.Repl.ReplaceAll(z.Key, "")
	}
	if field, ok := strings.CutPrefix(z.Key, "{"+headerField); ok && strings.IndexByte(field, '}') == len(field)-1 {
		// it is that field; what Caddy reads placeholders with needs a larger stack than all of a request
		return httpfield.TrimSpace(strings.Join(e.Http.Header[http.CanonicalHeaderKey(field[:len(field)-1])], ","))
	}
	nth, kind := e.body.reading, bodyfield.IsForm
	if forms := z.readingsAs(kind, e); nth >= forms {
		nth, kind = nth-forms, bodyfield.IsJSON
	}
	text, _ := e.Repl.ReplaceFunc(z.Key, func(name string, value any) (any, error) { // returns no error
		if bodyfield.IsField(name) {
			keys := e.fieldKeys(&e.body, name, kind)
			if len(keys) == 0 {
				return "", nil
			}
			text := keys[nth%len(keys)]
			nth /= len(keys)
			return text, nil
		}
		text := caddy.ToString(value)
		switch labels, ok := strings.CutPrefix(name, hostLabels); {
		case ok:
			return hostLabel(e.Http.Host, labels), nil
		case slices.Contains(hostPlaceholders, name):
			return HostKey(text), nil
		case strings.HasPrefix(name, headerField):
			return httpfield.TrimSpace(text), nil
		}
		return value, nil
	})
	return text
}

// HostKey returns the one spelling of a host, of all those that Caddy's matchers find equal: in lower case, without a
// port, brackets that don't belong to an address, and the dots of a rooted name.
func HostKey(host string) string {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.String()
	}
	if strings.HasPrefix(host, "[") {
		host, _, _ = strings.Cut(host[1:], "]")
		return HostKey(host)
	}
	host, _, _ = strings.Cut(host, ":")
	return strings.ReplaceAll(strings.ToLower(strings.TrimRight(host, ".]")), "ſ", "s") // the only fold that ToLower leaves
}

// hostLabel returns the nth label of a host, counted from the right, or "".
func hostLabel(host, nth string) string {
	labels := strings.Split(HostKey(host), ".")
	slices.Reverse(labels)
	if n, err := strconv.Atoi(nth); err == nil && n >= 0 && n < len(labels) {
		return labels[n]
	}
	return ""
}
