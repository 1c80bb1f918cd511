package endpoint

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
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

// foldRune maps all runes that differ only in case to the same one, to ASCII if one of them is
// ASCII.
func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		return rune(lower[byte(r)])
	}
	if page := r >> 8; page < foldPages {
		if page := folds()[page]; page != nil && page[byte(r)] != 0 {
			return page[byte(r)]
		}
	}
	return r
}

// foldPages is the number of pages of 256 runes up to the last rune with a case.
const foldPages = 0x1ea

// folds maps runes to their folded ones, if they differ. Package unicode takes as long as reading
// 20 bytes, and clients may send nothing else.
var folds = sync.OnceValue(func() *[foldPages]*[256]rune {
	var pages [foldPages]*[256]rune
	fold := func(r, to rune) {
		if pages[r>>8] == nil {
			pages[r>>8] = new([256]rune)
		}
		pages[r>>8][byte(r)] = to
	}
	for _, cased := range unicode.CaseRanges {
		for r := rune(cased.Lo); r <= rune(cased.Hi); r++ {
			fold(r, unicode.ToLower(unicode.ToUpper(unicode.ToLower(r))))
		}
	}
	for r := rune(utf8.RuneSelf); r < foldPages<<8; r++ { // fullwidth, mathematical, in a circle, …
		if ascii := norm.NFKC.PropertiesString(string(r)).Decomposition(); len(ascii) == 1 && ascii[0] < utf8.RuneSelf {
			fold(r, rune(lower[ascii[0]]))
		}
	}
	return &pages
})

// decoder decodes text. The zero value is ready for use.
type decoder struct {
	work int // number of bytes and characters examined
}

// append appends text as the most lenient program decodes it: percent-encoding in any depth, also
// as %uXXXX, overlong UTF-8, characters that decompose into one of ASCII (NFKC) as that, and ASCII characters mapped by
// a table. It takes one pass over the text, however deeply that is encoded: a sequence that a decoded
// character completes is decoded at once. Bytes that are not UTF-8 stay unchanged.
func (d *decoder) append(to []byte, text string, table *[256]byte) []byte {
	from := len(to)
	d.work += len(text)
	for i := range len(text) {
		c := table[text[i]]
		to = append(to, c)
		switch completes[c] {
		case aRune:
			to = d.settle(to, from, table)
		case anEscape:
			if n := len(to); n >= from+3 && to[n-3] == '%' || n >= from+6 && to[n-6] == '%' {
				to = d.settle(to, from, table)
			}
		}
	}
	return to
}

// Kinds of bytes by the sequences that they may end.
const (
	nothing = iota
	aRune
	anEscape
)

var completes = func() (table [256]byte) {
	for c := range table {
		switch {
		case c >= utf8.RuneSelf && c < 0xc0:
			table[c] = aRune
		case digits[c] != notHex:
			table[c] = anEscape
		}
	}
	return table
}()

// settle decodes the sequence that the last byte completes, and further sequences that the result
// completes. Each step but the last makes the text shorter.
func (d *decoder) settle(to []byte, from int, table *[256]byte) []byte {
	for {
		d.work++
		text, r, size := to[from:], rune(0), 0
		if last := text[len(text)-1]; last >= utf8.RuneSelf {
			r, size = lastRune(text)
		} else if low := digits[last]; low != notHex && len(text) >= 3 {
			if high := digits[text[len(text)-2]]; text[len(text)-3] == '%' && high != notHex {
				to = to[:len(to)-2]
				to[len(to)-1] = table[high<<4|low]
				continue
			}
			r, size = lastUnicode(text)
		}
		if size == 0 {
			return to
		}
		if to, r = to[:len(to)-size], foldRune(r); r >= utf8.RuneSelf {
			return utf8.AppendRune(to, r)
		}
		to = append(to, table[byte(r)])
	}
}

// lastUnicode decodes a character at the end of a text that is written as %uXXXX.
func lastUnicode(text []byte) (r rune, size int) {
	n := len(text)
	if n < 6 || text[n-6] != '%' || text[n-5] != 'u' {
		return 0, 0
	}
	for _, c := range text[n-4:] {
		if digits[c] == notHex {
			return 0, 0
		}
		r = r<<4 | rune(digits[c])
	}
	return r, 6
}

// lastRune decodes a non-ASCII character at the end of a text, overlong or not.
func lastRune(text []byte) (r rune, size int) {
	if text[len(text)-1] >= 0xc0 { // it begins a sequence
		return 0, 0
	}
	for size = 2; size <= min(utf8.UTFMax, len(text)); size++ {
		end := text[len(text)-size:]
		if end[0] < utf8.RuneSelf {
			return 0, 0
		}
		if end[0] < 0xc0 {
			continue
		}
		if size == 2 && end[0] < 0xe0 {
			return rune(end[0]&0x1f)<<6 | rune(end[1]&0x3f), size
		}
		if r, n := utf8.DecodeRune(end); n == size {
			return r, n
		}
		if r, n := decodeOverlong(end); n == size {
			return r, n
		}
		return 0, 0
	}
	return 0, 0
}

func (d *decoder) decode(text string) string {
	return string(d.append(make([]byte, 0, len(text)), text, &lower))
}

// decoded returns text as the most lenient program decodes it.
func decoded(text string) string { return new(decoder).decode(text) }

// decodeOverlong decodes an ASCII character that is written in three or four bytes, which decoders
// without checks accept. n is 0 if there is none.
func decodeOverlong(text []byte) (r rune, n int) {
	switch c := text[0]; {
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

// appendFolded appends text, folded. It decodes only overlong characters.
func appendFolded(to []byte, text string) []byte {
	for i := range len(text) {
		c := lower[text[i]]
		if to = append(to, c); c < utf8.RuneSelf {
			continue
		}
		if r, size := lastRune(to); size > 0 {
			to = utf8.AppendRune(to[:len(to)-size], foldRune(r))
		}
	}
	return to
}

// digits are the values of hex digits.
var digits = func() (table [256]byte) {
	for c := range table {
		table[c] = notHex
		if i := strings.IndexByte("0123456789abcdef", lower[c]); i >= 0 {
			table[c] = byte(i)
		}
	}
	return table
}()

const notHex = 0xff

func isHex(c byte) bool { return digits[c] != notHex }

func unhex(c byte) byte { return digits[c] }

// equalFolded reports whether text, folded as ASCII, equals folded.
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

// indexFolded returns the index of the first occurrence of folded in text, or -1.
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

// trimBlanks removes blanks and control characters around a text.
func trimBlanks(text []byte) []byte {
	if n := len(text); n == 0 || kinds[text[0]] == plain && kinds[text[n-1]] == plain {
		return text
	}
	return bytes.TrimFunc(text, isBlank)
}
