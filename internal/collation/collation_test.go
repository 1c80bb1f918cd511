package collation

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// keyOf returns the first key of a text, which is that of most collations.
func keyOf(text string) string { return Keys(text, most)[0] }

// A key is the text decomposed, without marks and invisible characters, in lower case.
func TestKeysAreFolded(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	parts := []string{"a", "Z", " ", "\t", "é", "e\u0301", "\u00a8", "\u0130", "한", "\u1112\u1161\u11ab", "\u200b", "\u00ad", "\u3000", "\u1fb7", "\u212a", "\U0001d400", "😀", "漢", "\ufb03", "\x7f", "\u0316\u0301"}
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
		if got := keyOf(text); got != want {
			t.Fatalf("seed %d: %+q: got %+q, want %+q", seed, text, got, want)
		}
	}
}

// A long value makes no long key, although a character may decompose to 18, and blanks hide no account.
func TestKeysAreBounded(t *testing.T) {
	for _, unit := range []string{"\ufdfa", "é", "a", "한", "\u00a8"} {
		if n := len(keyOf(strings.Repeat(unit, 20_000))); n > most+64 {
			t.Errorf("%q: a key of %d bytes", unit, n)
		}
	}
	for _, blank := range []string{" ", "\u3000", "\u200b", "\u0301", "\r\n"} {
		for _, text := range []string{strings.Repeat(blank, 20_000) + "Victim", "victim" + strings.Repeat(blank, 20_000)} {
			if got := keyOf(text); got != "victim" {
				t.Errorf("%q around it: got %q", blank, got)
			}
		}
	}
}

// A number is one key with any zeros before it, since a backend may read it as one. Other texts keep one zero.
func TestNumbersHaveOneKey(t *testing.T) {
	for text, want := range map[string]string{
		"7": "7", "007": "7", " 07 ": "7", strings.Repeat("0", 5000) + "7": "7", "0": "0", "000": "0", "": "", "70": "70", "0x": "0x", "x07": "x07", "0 7": "0 7", "1e3": "1e3",
	} {
		if got := keyOf(text); got != want {
			t.Errorf("%.20q: got %q, want %q", text, got, want)
		}
	}
}

var sink int

// BenchmarkKeys compares a key with a text in lower case.
func BenchmarkKeys(b *testing.B) {
	for _, text := range []string{"Alice@example.com", "víctim@example.com", "Straße"} {
		b.Run(text+"/key", func(b *testing.B) {
			for b.Loop() {
				sink += len(Keys(text, most))
			}
		})
		b.Run(text+"/lower", func(b *testing.B) {
			for b.Loop() {
				sink += len(strings.ToLower(text))
			}
		})
	}
}
