// Package collation folds texts as databases compare them: one account has one key in all of its spellings.
package collation

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Keys returns the keys of a text: two texts that a common collation finds equal have one of them in common. There is
// one, unless collations disagree about a character. A key has no case, accents, invisible characters, and blanks
// around it, and is a number without zeros before it. It ends after most bytes, about. ASCII keeps its punctuation.
//
// The collations are those of MariaDB and MySQL that ignore case and accents: unicode_ci, unicode_520_ci,
// uca1400_ai_ci, 0900_ai_ci and general_ci.
func Keys(text string, most int) []string {
	keys := []string{fold(text, most, -1, -1)}
	if strings.IndexFunc(text, isDisputed) < 0 {
		return keys
	}
	for _, sharpS := range []rune{-1, 's'} { // in unicode_ci, and in general_ci
		if key := fold(text, most, unicode.ReplacementChar, sharpS); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

const (
	sharpS = 'ß'
	maxBMP = 0xffff // of the basic plane. Older collations find all characters above equal
)

// isDisputed reports whether collations disagree about a character.
func isDisputed(c rune) bool { return c > maxBMP || c == sharpS }

// fold returns a key, with others for the characters above the basic plane and for ß unless these are -1.
func fold(text string, most int, above, s rune) string {
	f := folder{key: make([]byte, 0, min(len(text), most))}
	for _, c := range text {
		switch {
		case len(f.key) >= most:
			return f.text()
		case c > maxBMP && above >= 0:
			c = above
		case c == sharpS && s >= 0:
			c = s
		}
		f.addNext(c)
	}
	return f.text()
}

// folder builds a key.
type folder struct {
	key   []byte
	zero  bool // the text begins with one
	vowel int  // how many bytes at the end are a vowel that is written before its consonant
}

// consonants are those that newer collations compare before a vowel that is written before them.
var consonants = &unicode.RangeTable{R16: []unicode.Range16{
	// Thai, Lao
	{Lo: 0xe01, Hi: 0xe2e, Stride: 1}, {Lo: 0xe81, Hi: 0xeae, Stride: 1}, {Lo: 0xedc, Hi: 0xedf, Stride: 1},
	{Lo: 0x1980, Hi: 0x19ab, Stride: 1}, {Lo: 0xaa80, Hi: 0xaaaf, Stride: 1}, // New Tai Lue, Tai Viet
}}

// addNext adds the next character of a text. Of a vowel and its consonant, the consonant comes first, in whatever order
// they are written: newer collations compare Thai, Lao and Tai that way.
func (f *folder) addNext(c rune) {
	n := len(f.key)
	if c < utf8.RuneSelf {
		f.add(c)
	} else {
		f.fold(c)
	}
	added := len(f.key) - n
	switch {
	case added == 0: // it is ignored
	case unicode.Is(unicode.Logical_Order_Exception, c):
		f.vowel = added
	default:
		if f.vowel > 0 && unicode.Is(consonants, c) {
			vowel := string(f.key[n-f.vowel : n])
			f.key = append(append(f.key[:n-f.vowel], f.key[n:]...), vowel...)
		}
		f.vowel = 0
	}
}

// add adds a character, unless it is invisible, or nothing but blanks and zeros were before it.
func (f *folder) add(c rune) {
	switch {
	case len(f.key) == 0 && c == '0':
		f.zero = true
	case len(f.key) == 0 && !f.zero && unicode.IsSpace(c):
	case c >= utf8.RuneSelf:
		f.key = utf8.AppendRune(f.key, c)
	case c >= 'A' && c <= 'Z':
		f.key = append(f.key, byte(c-'A'+'a'))
	case c >= ' ' && c < 0x7f:
		f.key = append(f.key, byte(c))
	}
}

// fold adds what a character is equal to: what the table says of it, or of the characters that it consists of.
func (f *folder) fold(c rune) {
	if f.addEqual(c) {
		return
	}
	var scratch [64]byte // a character decomposes to 18 at most
	for _, c := range string(norm.NFKD.AppendString(scratch[:0], string(c))) {
		if c = unicode.ToLower(c); !f.addEqual(c) && !unicode.In(c, unicode.Mn, unicode.Me, unicode.Cc, unicode.Cf) {
			f.add(c)
		}
	}
}

// addEqual reports whether the table has a character, and adds what it says.
func (f *folder) addEqual(c rune) bool {
	equal, found := equals()[c]
	for _, c := range equal {
		f.add(c)
	}
	return found
}

// text returns the key: a number without the zeros before it, or a text with one.
func (f *folder) text() string {
	if !f.zero {
		return strings.TrimSpace(string(f.key))
	}
	text := strings.TrimSpace("0" + string(f.key))
	if number := text[1:]; number != "" && strings.Trim(number, "0123456789") == "" {
		return number
	}
	return text
}

//go:embed equals.txt
var table string

// equals are the characters that collations find equal to others, or ignore, beyond those that decompose to the same
// ones. A line of the table is what they are equal to, and after a tab their code points.
var equals = sync.OnceValue(func() map[rune]string {
	equals := make(map[rune]string)
	for line := range strings.Lines(table) {
		to, points, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		for _, point := range strings.Fields(points) {
			first, last, isRange := strings.Cut(point, "-")
			if !isRange {
				last = first
			}
			from, _ := strconv.ParseInt(first, 16, 32) // a test reads the table, too
			until, _ := strconv.ParseInt(last, 16, 32)
			for c := rune(from); c <= rune(until); c++ {
				equals[c] = to
			}
		}
	}
	return equals
})
