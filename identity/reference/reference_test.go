package reference

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

const (
	oneSecret     = "one secret of at least 32 characters"
	anotherSecret = "another one of at least 32 characters"
)

func newSealer(t testing.TB, secrets ...string) *Sealer {
	t.Helper()
	var older [][]byte
	for _, text := range secrets[1:] {
		older = append(older, []byte(text))
	}
	secret, err := identity.NewSecret([]byte(secrets[0]), older...)
	if err != nil {
		t.Fatal(err)
	}
	return New(secret)
}

var refusal = Refusal{
	Scope:  0xfedcba98,
	Reason: 5,
	Time:   time.Date(2026, 11, 22, 6, 30, 1, 0, time.UTC),
	Name:   [NameSize]byte([]byte("a name of a key.")),
}

func same(a, b Refusal) bool {
	return a.Scope == b.Scope && a.Reason == b.Reason && a.Name == b.Name && a.Time.Equal(b.Time)
}

func TestReferenceOpens(t *testing.T) {
	s := newSealer(t, oneSecret)
	for name, want := range map[string]Refusal{
		"of a client":     refusal,
		"of nobody":       {Time: time.Unix(0, 0)},
		"with everything": {math.MaxUint32, MaxReason, time.Unix(math.MaxUint32, 0), [NameSize]byte([]byte(strings.Repeat("\xff", NameSize)))},
	} {
		text := s.Seal(want)
		if len(text) != TextSize {
			t.Errorf("%s: %q has %d characters, want %d", name, text, len(text), TextSize)
		}
		if got, err := s.Open(text); err != nil || !same(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
		}
	}
}

// References are tolerant of how people copy them.
func TestReferenceOpensHoweverItIsSpelled(t *testing.T) {
	s := newSealer(t, oneSecret)
	text := s.Seal(refusal)
	for range 100 { // until there is a digit that looks like a letter
		if strings.Contains(text, "0") && strings.Contains(text, "1") {
			break
		}
		text = s.Seal(refusal)
	}
	for name, spelled := range map[string]string{
		"capitals": strings.ToUpper(text),
		"groups":   text[:8] + "-" + text[8:16] + " " + text[16:],
		"letters":  strings.NewReplacer("0", "O", "1", "l").Replace(text),
		"a URI":    URN + text,
		"space":    " " + text + "\n",
	} {
		if got, err := s.Open(spelled); err != nil || !same(got, refusal) {
			t.Errorf("%s: %q: got %+v, %v", name, spelled, got, err)
		}
	}
}

// References reveal neither their content nor whether they are of one client.
func TestReferencesOfOneRefusalHaveNothingInCommon(t *testing.T) {
	s := newSealer(t, oneSecret)
	const n = 200
	var seen [TextSize]map[byte]bool
	for range n {
		text := s.Seal(refusal)
		for i := range seen {
			if seen[i] == nil {
				seen[i] = make(map[byte]bool)
			}
			seen[i][text[i]] = true
		}
	}
	for i, characters := range seen {
		if len(characters) < 16 { // of 32; the chance of fewer is below 2^-180
			t.Errorf("the character at %d of %d references is one of %d", i, n, len(characters))
		}
	}
}

func TestOlderSecretsOpen(t *testing.T) {
	text := newSealer(t, oneSecret).Seal(refusal)
	if got, err := newSealer(t, anotherSecret, oneSecret).Open(text); err != nil || !same(got, refusal) {
		t.Errorf("got %+v, %v", got, err)
	}
	rotated := newSealer(t, anotherSecret, oneSecret).Seal(refusal)
	if _, err := newSealer(t, oneSecret).Open(rotated); !errors.Is(err, ErrForeign) {
		t.Errorf("sealed under the secret that came later: got %v, want %v", err, ErrForeign)
	}
	if _, err := newSealer(t, anotherSecret).Open(text); !errors.Is(err, ErrForeign) {
		t.Errorf("the secret is gone: got %v, want %v", err, ErrForeign)
	}
}

func TestChangedReferencesDoNotOpen(t *testing.T) {
	s := newSealer(t, oneSecret)
	sealed, ok := parse(s.Seal(refusal))
	if !ok {
		t.Fatal("a reference is malformed")
	}
	for i := range len(sealed) * 8 {
		changed := sealed
		changed[i/8] ^= 1 << (i % 8)
		if _, err := s.Open(changed.String()); !errors.Is(err, ErrForeign) {
			t.Errorf("with bit %d changed: got %v, want %v", i, err, ErrForeign)
		}
	}
}

func TestMalformedReferences(t *testing.T) {
	s := newSealer(t, oneSecret)
	text := s.Seal(refusal)
	for name, text := range map[string]string{
		"none":              "",
		"short":             text[1:],
		"long":              text + "0",
		"another character": "u" + text[1:],
		"no ASCII":          "é" + text[2:],
		"very long":         strings.Repeat(" ", 1<<20) + text,
		"twice a URI":       URN + URN + text,
	} {
		if _, err := s.Open(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, want %v", name, err, ErrMalformed)
		}
	}
}

// Only sealed references open: nobody can invent one, or disguise one as another.
func FuzzOpen(f *testing.F) {
	s := newSealer(f, oneSecret, anotherSecret)
	f.Add(s.Seal(refusal))
	f.Add(strings.Repeat("0", TextSize))
	f.Add(URN + strings.Repeat("Z", TextSize))
	f.Add("\xff\x00")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := s.Open(text)
		if err == nil && !same(got, refusal) {
			t.Errorf("%q opens: %+v", text, got)
		}
		if sealed, ok := parse(text); ok {
			if again, ok := parse(sealed.String()); !ok || again != sealed {
				t.Errorf("%q is %x, and written again %x", text, sealed, again)
			}
		} else if !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %v, want %v", text, err, ErrMalformed)
		}
	})
}

func FuzzSeal(f *testing.F) {
	s := newSealer(f, oneSecret)
	f.Add(uint32(1), uint8(2), uint32(3), []byte("name"))
	f.Fuzz(func(t *testing.T, scope uint32, reason uint8, seconds uint32, name []byte) {
		want := Refusal{Scope: scope, Reason: reason & MaxReason, Time: time.Unix(int64(seconds), 0)}
		copy(want.Name[:], name)
		if got, err := s.Open(s.Seal(want)); err != nil || !same(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	s := newSealer(b, oneSecret)
	b.ReportAllocs()
	for b.Loop() {
		s.Seal(refusal)
	}
}
