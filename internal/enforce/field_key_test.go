package enforce

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// A key of a field is the text decomposed, without marks and invisible characters, in lower case.
func TestKeysOfFieldsAreFolded(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	parts := []string{"a", "Z", " ", "\t", "é", "e\u0301", "\u00a8", "\u0130", "\u03a3", "한", "\u1112\u1161\u11ab", "\u200b", "\u00ad", "\u3000", "\ufdfa", "\u1fb7", "\u212a", "\U0001d400", "😀", "漢", "\ufb03", "\x7f", "\u0316\u0301"}
	for range 50_000 {
		var b strings.Builder
		for range random.IntN(8) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		text := b.String()
		want := strings.ToLower(strings.TrimSpace(strings.Map(func(c rune) rune {
			if unicode.In(c, unicode.Mn, unicode.Cc, unicode.Cf) {
				return -1
			}
			return c
		}, norm.NFKD.String(text))))
		if got := fieldKey(text); got != want {
			t.Fatalf("seed %d: %+q: got %+q, want %+q", seed, text, got, want)
		}
	}
}

// A long value makes no long key, although a character may decompose to 18, and blanks hide no account.
func TestKeysOfFieldsAreBounded(t *testing.T) {
	for _, unit := range []string{"\ufdfa", "é", "a", "한", "\u00a8"} {
		if n := len(fieldKey(strings.Repeat(unit, 20_000))); n > maxFieldKey+64 {
			t.Errorf("%q: a key of %d bytes", unit, n)
		}
	}
	for _, blank := range []string{" ", "\u3000", "\u200b", "\u0301", "\r\n"} {
		for _, text := range []string{strings.Repeat(blank, 20_000) + "Victim", "victim" + strings.Repeat(blank, 20_000)} {
			if got := fieldKey(text); got != "victim" {
				t.Errorf("%q around it: got %q", blank, got)
			}
		}
	}
}

// A number is one key with any zeros before it, since a backend may read it as one. Other texts keep one zero.
func TestNumbersInFieldsHaveOneKey(t *testing.T) {
	for text, want := range map[string]string{
		"7": "7", "007": "7", " 07 ": "7", strings.Repeat("0", 5000) + "7": "7", "0": "0", "000": "0", "": "", "70": "70", "0x": "0x", "x07": "x07", "0 7": "0 7", "1e3": "1e3",
	} {
		if got := fieldKey(text); got != want {
			t.Errorf("%.20q: got %q, want %q", text, got, want)
		}
	}
}
