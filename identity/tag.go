package identity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
)

// The tag of a key is its first byte. It says what kind of value the key is, so that no key
// of one kind equals one of another.
const (
	TagNetwork     = 'i' // a network
	TagUnknown     = 'u' // all clients without an IP address
	TagText        = 'k' // the value of a key in a config
	TagDigest      = 'd' // the SHA-256 of a long value
	TagEveryone    = 'e' // one key for all
	TagAPIKey      = 'a' // the client that an API key belongs to
	TagService     = 's' // the services of a tier
	TagSession     = 't' // the id of a session
	TagSolution    = 'o' // a solution of a challenge
	TagFingerprint = 'f' // a network, and a hash of a browser's header fields
)

// tags describes keys by their tags.
var tags = [256]struct {
	kind      string                  // what it names, for operators; "" for the value of a zone's key
	isAddress bool                    // it can be linked to an address
	text      func(key []byte) string // describes the rest of the key; nil if there is none
}{
	TagNetwork:     {kind: "network", isAddress: true, text: networkText},
	TagFingerprint: {kind: "client", isAddress: true, text: fingerprintText},
	TagUnknown:     {kind: "unknown"},
	TagText:        {text: plainText},
	TagEveryone:    {kind: "all", text: plainText},
	TagAPIKey:      {kind: "api_key", text: plainText},
	TagService:     {kind: "service", text: plainText},
	TagDigest:      {text: func(digest []byte) string { return "sha256:" + hex.EncodeToString(digest) }},
	TagSession:     {kind: "session", text: sessionText},
}

// KeyKind returns the kind of what a key names, for operators.
func KeyKind(key string) string { return cmp.Or(tags[key[0]].kind, "key") }

// IsAddress reports whether a key can be linked to a client's address.
func IsAddress(key string) bool { return key != "" && tags[key[0]].isAddress }

// NetworkOf returns the network that a key tells, or false if it tells none.
func NetworkOf(key string) (network netip.Prefix, ok bool) {
	if !IsAddress(key) {
		return netip.Prefix{}, false
	}
	value := []byte(key[1:])
	if key[0] == TagFingerprint {
		value = value[:len(value)-FingerprintSize]
	}
	return PrefixOf(value), true
}

// KeyText describes a key to operators, without a fingerprint: a tag tells the clients of a network apart. It is
// empty where there is nothing to say.
func KeyText(key []byte) string {
	if len(key) == 0 || tags[key[0]].text == nil {
		return ""
	}
	return tags[key[0]].text(key[1:])
}

func plainText(value []byte) string { return string(value) }

func networkText(network []byte) string { return PrefixOf(network).String() }

func fingerprintText(value []byte) string { return networkText(value[:len(value)-FingerprintSize]) }

// FullText describes a key as [KeyText] does, with the fingerprint behind a space, for programs.
func FullText(key []byte) string {
	text := KeyText(key)
	if len(key) > 0 && key[0] == TagFingerprint {
		text += " " + hex.EncodeToString(key[len(key)-FingerprintSize:])
	}
	return text
}

func sessionText(id []byte) string { return "session " + SessionName(id) }

// SessionName returns the name of a session for operators: 16 hexadecimal digits of a hash of its ID, so that
// logs don't reveal the session.
func SessionName(id []byte) string {
	sum := sha256.Sum256(append([]byte{TagSession}, id...))
	return hex.EncodeToString(sum[:8])
}
