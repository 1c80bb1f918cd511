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

// spellings has what people write instead of characters of the alphabet, and between them.
var spellings = strings.NewReplacer("i", "1", "l", "1", "o", "0", " ", "", "-", "")

// maxText bounds the text that is looked at.
const maxText = 4 * TextSize

// parse reads a token from its text, which may be in capitals, in groups set apart by
// spaces or hyphens, with letters in place of the digits they look like, and a URI.
func parse(text string) (t token, ok bool) {
	if len(text) > maxText {
		return t, false
	}
	text = strings.ToLower(strings.TrimSpace(text))
	text = spellings.Replace(strings.TrimPrefix(text, URN))
	if len(text) != TextSize {
		return t, false
	}
	n, err := encoding.Decode(t[:], []byte(text))
	return t, err == nil && n == len(t)
}

func (t *token) String() string { return encoding.EncodeToString(t[:]) }
