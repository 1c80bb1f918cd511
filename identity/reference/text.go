package reference

import (
	"encoding/base32"
	"strings"
)

// URN is the prefix of a reference as a URI. The namespace is not registered.
const URN = "urn:caddy-tally:"

// TextSize is the length of a reference in characters.
const TextSize = tokenSize * 8 / 5

var encoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// spellings are common substitutes for characters of the alphabet, and separators.
var spellings = strings.NewReplacer("i", "1", "l", "1", "o", "0", " ", "", "-", "")

// ShortSize is the number of characters that identify a reference among recent ones: 50 bits that can't be chosen or
// guessed.
const ShortSize = 10

// Short returns the beginning of a reference in two groups, for people, or "" if the text is no reference.
func Short(text string) string {
	if len(text) != TextSize {
		return ""
	}
	return text[:ShortSize/2] + "-" + text[ShortSize/2:ShortSize]
}

// Canonical returns a reference, or the beginning of one, in its original alphabet, whatever its spelling. For a text
// that is too long it returns "".
func Canonical(text string) string {
	if len(text) > maxText {
		return ""
	}
	text = strings.ToLower(strings.TrimSpace(text))
	return spellings.Replace(strings.TrimPrefix(text, URN))
}

// maxText is the maximum length of a text.
const maxText = 4 * TextSize

// parse parses the text of a token. It may be in capitals, in groups separated by spaces or hyphens, with letters in
// place of similar digits, and a URI.
func parse(text string) (t token, ok bool) {
	if text = Canonical(text); len(text) != TextSize {
		return t, false
	}
	n, err := encoding.Decode(t[:], []byte(text))
	return t, err == nil && n == len(t)
}

func (t *token) String() string { return encoding.EncodeToString(t[:]) }
