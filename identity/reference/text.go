package reference

import (
	"encoding/base32"
	"strings"
)

// URN begins the reference as a URI. The namespace is not registered.
const URN = "urn:caddy-tally:"

// TextSize is how many characters a reference has.
const TextSize = tokenSize * 8 / 5

var encoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// spellings are common substitutes for characters of the alphabet, and separators.
var spellings = strings.NewReplacer("i", "1", "l", "1", "o", "0", " ", "", "-", "")

// ShortSize is how many characters at the beginning of a reference are enough to find it by among
// recent ones: 50 bits that nobody can choose or guess.
const ShortSize = 10

// Short returns the beginning of a reference in two groups, as people are shown it. Of what is no
// reference it is "".
func Short(text string) string {
	if len(text) != TextSize {
		return ""
	}
	return text[:ShortSize/2] + "-" + text[ShortSize/2:ShortSize]
}

// Canonical returns a reference, or the beginning of one, in the alphabet that it is made in, however
// it is spelled. Of a text that is too long it is "".
func Canonical(text string) string {
	if len(text) > maxText {
		return ""
	}
	text = strings.ToLower(strings.TrimSpace(text))
	return spellings.Replace(strings.TrimPrefix(text, URN))
}

// maxText bounds the text that is looked at.
const maxText = 4 * TextSize

// parse reads a token from its text, which may be in capitals, in groups set apart by
// spaces or hyphens, with letters in place of the digits they look like, and a URI.
func parse(text string) (t token, ok bool) {
	if text = Canonical(text); len(text) != TextSize {
		return t, false
	}
	n, err := encoding.Decode(t[:], []byte(text))
	return t, err == nil && n == len(t)
}

func (t *token) String() string { return encoding.EncodeToString(t[:]) }
