package tally

import (
	"crypto/sha256"

	"github.com/caddy-tally/caddy-tally/identity"
)

// keyVerdict is what a zone does with a request because of its key, before it counts.
type keyVerdict int

const (
	keyFound keyVerdict = iota
	keySkipped
	keyDenied
)

// appendKey appends what the request is counted by in a zone.
func (e *evaluation) appendKey(z *zone) (keyVerdict, error) {
	switch z.per {
	case perIP:
		e.appendIP(z)
	case perEveryone:
		e.keys = append(append(e.keys, identity.TagEveryone), z.static...)
	case perAPIKey:
		return keyFound, e.appendAPIKey(z)
	case perKey:
		return e.appendText(z), nil
	}
	return keyFound, nil
}

// appendAPIKey appends the client that the request's API key names, or the network of a
// client that may pass without a key.
func (e *evaluation) appendAPIKey(z *zone) error {
	c := e.authenticate(e.handler.app)
	switch {
	case c.service:
		e.keys = append(append(e.keys, identity.TagService), c.tier...)
	case c.name != "":
		e.keys = append(append(e.keys, identity.TagAPIKey), c.name...)
	case c.err == nil:
		e.appendIP(z)
	}
	return c.err
}

// appendIP appends the client's network.
func (e *evaluation) appendIP(z *zone) {
	ipv4, ipv6 := e.handler.app.prefixes(z.IPv4Prefix, z.IPv6Prefix)
	network, ok := identity.Prefix(e.clientIP(), ipv4, ipv6)
	if !ok {
		e.keys = append(e.keys, identity.TagUnknown)
		return
	}
	e.keys = identity.AppendPrefix(append(e.keys, identity.TagNetwork), network)
}

// appendText appends the value of the zone's key.
func (e *evaluation) appendText(z *zone) keyVerdict {
	text := e.keyText(z)
	if text == z.emptyForm {
		switch z.OnEmptyKey {
		case "", emptyIP:
			e.appendIP(z)
			return keyFound
		case emptySkip:
			return keySkipped
		case emptyDeny:
			return keyDenied
		}
	}
	e.keys = append(append(e.keys, identity.TagText), z.shortenIP(text)...)
	return keyFound
}

// shortenIP replaces a key that is an IP address by its network, if the zone
// says so.
func (z *zone) shortenIP(text string) string {
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
func (e *evaluation) shorten(from int) {
	if key := e.keys[from:]; len(key) > longKey {
		sum := sha256.Sum256(key)
		e.keys = append(append(e.keys[:from], identity.TagDigest), sum[:]...)
	}
}
