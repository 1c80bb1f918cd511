package session

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"

	"github.com/caddy-tally/caddy-tally/identity/internal/keyed"
)

// version is the first byte of every token.
const version = 1

// The offsets of the fields of a token.
const (
	keyAt     = 1
	issuedAt  = keyAt + keyed.IDSize
	expiresAt = issuedAt + 4
	idAt      = expiresAt + 4
	originAt  = idAt + IDSize
	macAt     = originAt + originSize
	tokenSize = macAt + keyed.Size
)

const originSize = 8

// IDSize is the length of a session's ID in bytes.
const IDSize = 16

// ValueSize is the length of a token in a cookie, in characters.
const ValueSize = tokenSize / 3 * 4

// encoding encodes a token. Its bytes fill the characters exactly, so no bits are arbitrary.
var encoding = base64.RawURLEncoding

type token [tokenSize]byte

// parse parses a token. It doesn't check the HMAC.
func parse(value string) (t token, ok bool) {
	var text [ValueSize]byte
	if len(value) != len(text) {
		return t, false
	}
	copy(text[:], value)
	n, err := encoding.Decode(t[:], text[:])
	return t, err == nil && n == len(t) && t[0] == version
}

func (t *token) String() string { return encoding.EncodeToString(t[:]) }

func (t *token) key() [keyed.IDSize]byte  { return [keyed.IDSize]byte(t[keyAt:]) }
func (t *token) issued() int64            { return int64(binary.BigEndian.Uint32(t[issuedAt:])) }
func (t *token) expires() int64           { return int64(binary.BigEndian.Uint32(t[expiresAt:])) }
func (t *token) id() [IDSize]byte         { return [IDSize]byte(t[idAt:]) }
func (t *token) origin() [originSize]byte { return [originSize]byte(t[originAt:]) }

func (t *token) setTimes(issued, expires int64) {
	binary.BigEndian.PutUint32(t[issuedAt:], uint32(issued))
	binary.BigEndian.PutUint32(t[expiresAt:], uint32(expires))
}

// sign adds the HMAC under a key to a token.
func (t *token) sign(key keyed.Key, a Audience) {
	t[0] = version
	copy(t[keyAt:], key.ID[:])
	sum := t.sum(key, a)
	copy(t[macAt:], sum[:])
}

// signedBy reports whether a token was made under a key for an audience.
func (t *token) signedBy(key keyed.Key, a Audience) bool {
	sum := t.sum(key, a)
	return hmac.Equal(sum[:], t[macAt:])
}

func (t *token) sum(key keyed.Key, a Audience) [keyed.Size]byte {
	return key.Start().Text("session").Fixed(t[:macAt]).Text(a.Site).Text(a.Cookie).Sum()
}

// originOf returns the origin of a network in the token of a session.
func originOf(key keyed.Key, id [IDSize]byte, network []byte) [originSize]byte {
	sum := key.Start().Text("origin").Fixed(id[:]).Bytes(network).Sum()
	return [originSize]byte(sum[:originSize])
}
