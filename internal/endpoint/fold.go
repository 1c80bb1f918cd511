package endpoint

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lower maps each byte to itself, and ASCII capitals to small letters.
var lower = func() (table [256]byte) {
	for i := range table {
		table[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			table[i] += 'a' - 'A'
		}
	}
	return table
}()

// foldRune returns the same rune for all that differ in case only, ASCII where one
// of them is.
func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		return rune(lower[byte(r)])
	}
	if 0xff01 <= r && r <= 0xff5e { // fullwidth
		return rune(lower[byte(r-0xff01+'!')])
	}
	return unicode.ToLower(unicode.ToUpper(unicode.ToLower(r)))
}

// appendFolded appends text, folded, with overlong sequences of UTF-8 as what they
// stand for. Bytes that are no UTF-8 at all stay as they are.
func appendFolded(to []byte, text []byte) []byte {
	for len(text) > 0 {
		if c := text[0]; c < utf8.RuneSelf {
			to, text = append(to, lower[c]), text[1:]
			continue
		}
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			if r, n = decodeOverlong(text); n == 0 {
				to, text = append(to, text[0]), text[1:]
				continue
			}
		}
		to, text = utf8.AppendRune(to, foldRune(r)), text[n:]
	}
	return to
}

// decodeOverlong decodes an ASCII character that is written in two to four bytes,
// as decoders accept that don't check. Without one, n is 0.
func decodeOverlong(text []byte) (r rune, n int) {
	switch c := text[0]; {
	case c == 0xc0 || c == 0xc1:
		n = 2
	case c == 0xe0:
		n = 3
	case c == 0xf0:
		n = 4
	default:
		return 0, 0
	}
	if len(text) < n {
		return 0, 0
	}
	r = rune(text[0] & 0x01)
	if n > 2 {
		r = 0
	}
	for _, c := range text[1:n] {
		if c&0xc0 != 0x80 {
			return 0, 0
		}
		r = r<<6 | rune(c&0x3f)
	}
	if r >= utf8.RuneSelf {
		return 0, 0
	}
	return r, n
}

// decodeAll decodes percent-encoding until nothing is left to decode, %uXXXX
// included, in one pass: what a decoded character completes is decoded at once.
func decodeAll(text string) []byte {
	to := make([]byte, 0, len(text))
	for i := range len(text) {
		to = append(to, text[i])
		for {
			n := len(to)
			if n >= 3 && to[n-3] == '%' && isHex(to[n-2]) && isHex(to[n-1]) {
				to = append(to[:n-3], unhex(to[n-2])<<4|unhex(to[n-1]))
				continue
			}
			if n >= 6 && to[n-6] == '%' && lower[to[n-5]] == 'u' && allHex(to[n-4:]) {
				r := rune(0)
				for _, c := range to[n-4:] {
					r = r<<4 | rune(unhex(c))
				}
				to = utf8.AppendRune(to[:n-6], r)
				if r < utf8.RuneSelf {
					continue
				}
			}
			break
		}
	}
	return to
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= lower[c] && lower[c] <= 'f'
}

func allHex(text []byte) bool {
	for _, c := range text {
		if !isHex(c) {
			return false
		}
	}
	return true
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return lower[c] - 'a' + 10
}

// equalFolded reports whether text, folded as ASCII, is the same as folded.
func equalFolded(folded, text string) bool {
	return len(folded) == len(text) && hasFoldedPrefix(text, folded)
}

func hasFoldedPrefix(text, folded string) bool {
	if len(text) < len(folded) {
		return false
	}
	for i := range len(folded) {
		if lower[text[i]] != folded[i] {
			return false
		}
	}
	return true
}

// indexFolded returns where folded first occurs in text, or -1.
func indexFolded(text, folded string) int {
	for i := 0; i+len(folded) <= len(text); i++ {
		if hasFoldedPrefix(text[i:], folded) {
			return i
		}
	}
	return -1
}

// isBlank reports whether programs trim a rune: blanks and control characters.
func isBlank(r rune) bool { return r <= ' ' || r == 0x7f || unicode.IsSpace(r) }

func trimBlanks(text string) string { return strings.TrimFunc(text, isBlank) }
