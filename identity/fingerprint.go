package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"strings"
)

// Hints are the header fields that a fingerprint is made from, as they came.
// They are those that a browser sends with every kind of request and over every
// version of HTTP. Each may be empty.
type Hints struct {
	UserAgent      string // User-Agent
	AcceptLanguage string // Accept-Language
	Platform       string // Sec-CH-UA-Platform
	Mobile         string // Sec-CH-UA-Mobile

	// Initiator is who had the browser send the request. What other sites have it
	// send is from another client than what its user does.
	Initiator Initiator
}

// Own returns the hints of the same browser when its user visits the site.
func (h Hints) Own() Hints {
	h.Initiator = OwnSite
	return h
}

// SayNothing reports whether no field says anything of the browser.
func (h Hints) SayNothing() bool {
	return h.UserAgent == "" && h.AcceptLanguage == "" && h.Platform == "" && h.Mobile == ""
}

// FingerprintSize is how many bytes a fingerprint takes behind its prefix.
const FingerprintSize = 16

// How much of each field a fingerprint looks at, in bytes. What comes behind
// tells no two browsers apart that want to be told apart.
const (
	maxUserAgent = 512
	maxLanguage  = 8 // of a primary language subtag: RFC 5646, section 2.1
	maxHint      = 32
)

// AppendFingerprint appends a key for those clients of a network that say the same
// of themselves: the network as [AppendPrefix] writes it, and a hash of the
// hints. It allocates nothing if key has room.
//
// Whoever makes requests chooses this key, so it separates people who mean well
// and stops nobody who doesn't.
func AppendFingerprint(key []byte, prefix netip.Prefix, h Hints) []byte {
	var room [6 + maxUserAgent + maxLanguage + 2*maxHint]byte
	said := appendHint(room[:0], h.UserAgent, maxUserAgent)
	said = appendHint(said, strings.Trim(h.Platform, `"`), maxHint)
	said = appendHint(said, h.Mobile, maxHint)
	if !h.Initiator.IsOther() { // whose page can choose a language (https://fetch.spec.whatwg.org/#cors-safelisted-request-header)
		said = appendLanguage(said, h.AcceptLanguage)
	}
	if h.Initiator != OwnSite {
		said = append(said, byte(h.Initiator)) // not a letter
	}
	sum := sha256.Sum256(said)
	return append(AppendPrefix(key, prefix), sum[:FingerprintSize]...)
}

// appendHint appends the beginning of a value, with its length in front.
func appendHint(said []byte, value string, most int) []byte {
	value = value[:min(len(value), most)]
	return append(binary.BigEndian.AppendUint16(said, uint16(len(value))), value...)
}

// appendLanguage appends the primary subtag of the language that comes first in
// a field, in lower case: "en" of "en-GB,de;q=0.5". No letter comes behind it, so it
// needs no length.
func appendLanguage(said []byte, field string) []byte {
	field = strings.TrimLeft(field, " \t")
	for i := range min(len(field), maxLanguage) {
		c := field[i] | 0x20 // letters in lower case
		if c < 'a' || c > 'z' {
			break
		}
		said = append(said, c)
	}
	return said
}
