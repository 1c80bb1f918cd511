package tally

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/caddy-tally/caddy-tally/identity"
)

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
