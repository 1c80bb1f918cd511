package webbot

import (
	"crypto/ed25519"
	"slices"
	"time"

	"github.com/dunglas/httpsfv"
)

// The bounds of signatures.
const (
	maxSignatures = 2            // of Web Bot Auth in a request; further ones aren't examined
	maxComponents = 16           // of a signature
	maxValue      = 4 << 10      // bytes of a header field or another component
	maxValidity   = 24 * 60 * 60 // seconds from created to expires
	maxSkew       = 60           // seconds between the clocks of bot and server
)

// Verify reports whether a request is signed with a key of the file, and valid now. If there are
// names, the key must have one of them.
func (k *Keys) Verify(m *Message, names []string, now time.Time) bool {
	inputs, signatures := m.dictionary("signature-input"), m.dictionary("signature")
	if inputs == nil || signatures == nil {
		return false
	}
	examined := 0
	for _, label := range inputs.Names() {
		input, ok := member[httpsfv.InnerList](inputs, label)
		if !ok || param[string](input, "tag") != "web-bot-auth" {
			continue
		}
		if examined++; examined > maxSignatures {
			return false
		}
		signature, _ := member[httpsfv.Item](signatures, label)
		if isValidAt(input, now.Unix()) && isSufficient(input, m) && k.verify(m, input, signature, names) {
			return true
		}
	}
	return false
}

// isValidAt reports whether a signature's time includes now, in seconds.
func isValidAt(input httpsfv.InnerList, now int64) bool {
	created, expires := param[int64](input, "created"), param[int64](input, "expires") // 0 is invalid, too
	return created < expires && expires-created <= maxValidity && created <= now+maxSkew && expires >= now-maxSkew
}

// isSufficient reports whether a signature covers what it must: the site, so that no other site can
// use it there, and the bot's own address if it is given.
func isSufficient(input httpsfv.InnerList, m *Message) bool {
	covers := func(name string) bool {
		return slices.ContainsFunc(input.Items, func(item httpsfv.Item) bool { return item.Value == name })
	}
	return len(input.Items) <= maxComponents && (covers("@authority") || covers("@target-uri")) &&
		(covers("signature-agent") || len(m.Header["Signature-Agent"]) == 0)
}

// verify reports whether a signature is by a key that has one of the names.
func (k *Keys) verify(m *Message, input httpsfv.InnerList, signature httpsfv.Item, names []string) bool {
	key, ok := (*k.file.Fresh())[param[string](input, "keyid")]
	if !ok || len(names) > 0 &&
		!slices.ContainsFunc(key.names, func(name string) bool { return slices.Contains(names, name) }) {
		return false
	}
	if alg, ok := input.Params.Get("alg"); ok && alg != "ed25519" {
		return false
	}
	base, ok := m.base(input)
	bytes, _ := signature.Value.([]byte)
	return ok && ed25519.Verify(key.public, []byte(base), bytes)
}

// member returns a member of a dictionary, if it has that type.
func member[T httpsfv.Member](d *httpsfv.Dictionary, name string) (T, bool) {
	value, _ := d.Get(name)
	typed, ok := value.(T)
	return typed, ok
}

// param returns a parameter of a signature, or the zero value if it is missing or has another type.
func param[T any](input httpsfv.InnerList, name string) T {
	value, _ := input.Params.Get(name)
	typed, _ := value.(T)
	return typed
}
