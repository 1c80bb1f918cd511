package tally

import (
	"cmp"
	"crypto/sha256"

	"github.com/caddy-tally/caddy-tally/identity"
)

// verdict says what became of a request in one zone, before anything is counted.
type verdict int

const (
	counted verdict = iota
	skipped
	denied
)

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

// appendCaller appends the client that the request's API key names, or the
// network of one that is let in without.
func (rq *request) appendCaller(z *Zone) error {
	c := rq.whoCalls(z.app)
	switch {
	case c.service:
		rq.keys = append(append(rq.keys, kindService), c.tier...)
	case c.name != "":
		rq.keys = append(append(rq.keys, kindAPIKey), c.name...)
	case c.err == nil:
		rq.appendIP(z)
	}
	return c.err
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
