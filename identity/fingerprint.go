package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strings"
)

// Hints are the header fields of a fingerprint, as received. Browsers send them with every kind of request and
// over every version of HTTP. Each may be empty.
type Hints struct {
	UserAgent      string // User-Agent
	AcceptLanguage string // Accept-Language
	Platform       string // Sec-CH-UA-Platform
	Mobile         string // Sec-CH-UA-Mobile

	// Initiator is the cause of the request. Requests that other sites cause belong to another client
	// than those of the browser's user (decision 46).
	Initiator Initiator
}

// Own returns the hints of the same browser when its user visits the site.
func (h Hints) Own() Hints {
	h.Initiator = OwnSite
	return h
}

// SayNothing reports whether all fields of the browser are empty.
func (h Hints) SayNothing() bool {
	return h.UserAgent == "" && h.AcceptLanguage == "" && h.Platform == "" && h.Mobile == ""
}

// FingerprintSize is the length of a fingerprint after its prefix, in bytes.
const FingerprintSize = 16

// The bytes of each field that a fingerprint uses. Longer values of ordinary browsers don't differ only in
// the rest.
const (
	maxUserAgent = 512
	maxLanguage  = 8 // of a primary language subtag: RFC 5646, section 2.1
	maxHint      = 32
)

// AppendFingerprint appends the key of the clients of a network with the same hints: the network in the form
// of [AppendPrefix], and a hash of the hints. It allocates nothing if key has room.
//
// Clients choose this key, so it separates well-meaning clients and doesn't stop others.
func AppendFingerprint(key []byte, prefix netip.Prefix, h Hints) []byte {
	var room [6 + maxUserAgent + maxLanguage + 2*maxHint]byte
	input := appendHint(room[:0], h.UserAgent, maxUserAgent)
	input = appendHint(input, strings.Trim(h.Platform, `"`), maxHint)
	input = appendHint(input, h.Mobile, maxHint)
	// whose page can choose a language (https://fetch.spec.whatwg.org/#cors-safelisted-request-header)
	if !h.Initiator.IsOther() {
		input = appendLanguage(input, h.AcceptLanguage)
	}
	if h.Initiator != OwnSite {
		input = append(input, byte(h.Initiator)) // not a letter
	}
	sum := sha256.Sum256(input)
	return append(AppendPrefix(key, prefix), sum[:FingerprintSize]...)
}

// appendHint appends the beginning of a value, preceded by its length.
func appendHint(input []byte, value string, most int) []byte {
	value = value[:min(len(value), most)]
	return append(binary.BigEndian.AppendUint16(input, uint16(len(value))), value...)
}

// appendLanguage appends the primary subtag of the first language in a field, in lower case: "en" of
// "en-GB,de;q=0.5". No letter follows it, so it needs no length.
func appendLanguage(input []byte, field string) []byte {
	field = strings.TrimLeft(field, " \t")
	for i := range min(len(field), maxLanguage) {
		c := field[i] | 0x20 // letters in lower case
		if c < 'a' || c > 'z' {
			break
		}
		input = append(input, c)
	}
	return input
}
