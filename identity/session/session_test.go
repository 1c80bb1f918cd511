package session

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

var (
	t0    = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	here  = Audience{Site: "example.com", Cookie: SecureCookie}
	home  = []byte("the network of the client")
	other = []byte("the network of another")
)

const (
	oneSecret     = "one secret of at least 32 characters"
	anotherSecret = "another one of at least 32 characters"
)

func newSigner(t testing.TB, secrets ...string) *Signer {
	t.Helper()
	var older [][]byte
	for _, text := range secrets[1:] {
		older = append(older, []byte(text))
	}
	secret, err := identity.NewSecret([]byte(secrets[0]), older...)
	if err != nil {
		t.Fatal(err)
	}
	signer := New(secret, 0)
	signer.random = rand.NewChaCha8([32]byte{1})
	return signer
}

func issue(s *Signer) (Session, string) { return s.Issue(t0, here, home) }

func TestSession(t *testing.T) {
	s := newSigner(t, oneSecret)
	issued, value := issue(s)
	if len(value) != ValueSize {
		t.Errorf("%d characters, want %d", len(value), ValueSize)
	}
	got, err := s.Verify(t0, here, home, value)
	if err != nil || got != issued {
		t.Errorf("got %+v, %v; want %+v", got, err, issued)
	}
	if want := t0.Add(DefaultLifetime); !got.Expires.Equal(want) {
		t.Errorf("expires at %v, want %v", got.Expires, want)
	}
	if second, _ := issue(s); second.ID == issued.ID {
		t.Error("two sessions have one id")
	}
}

func TestSessionLife(t *testing.T) {
	s := newSigner(t, oneSecret)
	_, value := issue(s)
	for _, c := range []struct {
		age       time.Duration
		err       error
		renewable bool
	}{
		{-Skew - time.Second, ErrFuture, false},
		{-Skew, nil, false},
		{DefaultLifetime/2 - time.Second, nil, false},
		{DefaultLifetime / 2, nil, true},
		{DefaultLifetime - time.Second, nil, true},
		{DefaultLifetime, ErrExpired, false},
		{100 * DefaultLifetime, ErrExpired, false},
	} {
		got, err := s.Verify(t0.Add(c.age), here, home, value)
		if err != c.err || got.Renewable != c.renewable {
			t.Errorf("at the age of %v: renewable %v, %v; want %v, %v", c.age, got.Renewable, err, c.renewable, c.err)
		}
	}
}

func TestShorterLifetimeHoldsForOldTokens(t *testing.T) {
	s := newSigner(t, oneSecret)
	_, value := issue(s)
	s.lifetime = time.Hour
	if _, err := s.Verify(t0.Add(time.Hour), here, home, value); err != ErrExpired {
		t.Errorf("got %v, want %v", err, ErrExpired)
	}
}

func TestRenewedSessionIsTheSame(t *testing.T) {
	s := newSigner(t, oneSecret)
	first, _ := issue(s)
	later := t0.Add(DefaultLifetime / 2)
	renewed, value := s.Renew(later, here, home, first.ID)
	got, err := s.Verify(later.Add(DefaultLifetime-time.Second), here, home, value)
	if err != nil || got.ID != first.ID || !got.Expires.Equal(renewed.Expires) {
		t.Errorf("got %+v, %v; want %+v", got, err, renewed)
	}
}

func TestSessionElsewhere(t *testing.T) {
	s := newSigner(t, oneSecret)
	first, value := issue(s)
	for _, network := range [][]byte{other, nil} {
		got, err := s.Verify(t0.Add(DefaultLifetime/2), here, network, value)
		if err != nil || !got.Elsewhere || got.ID != first.ID {
			t.Errorf("from %q: %+v, %v; want the session, elsewhere", network, got, err)
		}
		if got.Renewable {
			t.Error("a session that is used elsewhere goes on for ever")
		}
	}
}

// A token doesn't reveal whether another one was issued to the same network.
func TestSessionsOfOneNetworkLookDifferent(t *testing.T) {
	s := newSigner(t, oneSecret)
	_, one := issue(s)
	_, two := issue(s)
	a, _ := parse(one)
	b, _ := parse(two)
	if a.origin() == b.origin() {
		t.Errorf("both say %x", a.origin())
	}
}

// A new first key signs. Tokens of the other key are valid, and soon signed again.
func TestKeysRotate(t *testing.T) {
	before, after := newSigner(t, oneSecret), newSigner(t, anotherSecret, oneSecret)
	first, old := issue(before)
	got, err := after.Verify(t0, here, home, old)
	if err != nil || got.ID != first.ID || got.Elsewhere || !got.Renewable {
		t.Fatalf("got %+v, %v; want the session, renewable", got, err)
	}
	_, renewed := after.Renew(t0, here, home, got.ID)
	if got, err := newSigner(t, anotherSecret).Verify(t0, here, home, renewed); err != nil || got.ID != first.ID {
		t.Errorf("under the new key alone: %+v, %v", got, err)
	}
	if _, err := before.Verify(t0, here, home, renewed); err != ErrForeign {
		t.Errorf("under the old key alone: %v, want %v", err, ErrForeign)
	}
}

func TestForeignTokens(t *testing.T) {
	s := newSigner(t, oneSecret)
	_, value := issue(s)
	for what, a := range map[string]Audience{
		"another site":          {"example.org", SecureCookie},
		"another cookie":        {"example.com", PlainCookie},
		"the border moved":      {"example.com_", SecureCookie[1:]},
		"site and cookie apart": {SecureCookie, "example.com"},
	} {
		if _, err := s.Verify(t0, a, home, value); err != ErrForged {
			t.Errorf("%s: %v, want %v", what, err, ErrForged)
		}
	}
	if _, err := newSigner(t, anotherSecret).Verify(t0, here, home, value); err != ErrForeign {
		t.Errorf("another secret: %v, want %v", err, ErrForeign)
	}
}

func TestEveryBitCounts(t *testing.T) {
	s := newSigner(t, oneSecret)
	_, value := issue(s)
	for i := range len(value) * 8 {
		flipped := []byte(value)
		flipped[i/8] ^= 1 << (i % 8)
		if _, err := s.Verify(t0, here, home, string(flipped)); err == nil {
			t.Errorf("bit %d of the characters may be either", i)
		}
	}
	raw, _ := parse(value)
	for i := range len(raw) * 8 {
		flipped := raw
		flipped[i/8] ^= 1 << (i % 8)
		if _, err := s.Verify(t0, here, home, flipped.String()); err == nil {
			t.Errorf("bit %d of the bytes may be either", i)
		}
	}
}

const jwt = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiIxMjM0NTY3ODkwIiwiYWRtaW4iOnRydWV9.dGhlIHNpZ25hdHVyZSBvZiBub2JvZHk"

func TestMalformedTokens(t *testing.T) {
	s := newSigner(t, oneSecret)
	_, value := issue(s)
	bad := []string{
		jwt, jwt[:ValueSize], value + "=", value + "A", "A" + value, strings.ToLower(value) + "\n",
		value[:ValueSize-1] + "\n", value[:ValueSize-2] + "\r\n", strings.Repeat("\n", ValueSize),
		strings.Repeat("=", ValueSize), strings.Repeat("\x00", ValueSize), strings.Repeat("A", 1<<20),
	}
	for n := range value {
		bad = append(bad, value[:n])
	}
	for _, text := range bad {
		if _, err := s.Verify(t0, here, home, text); err != ErrMalformed {
			t.Errorf("%.100q: %v, want %v", text, err, ErrMalformed)
		}
	}
}

// The value of a cookie is a session only if it is an issued token.
func FuzzVerify(f *testing.F) {
	s := newSigner(f, anotherSecret, oneSecret)
	_, value := issue(s)
	_, old := issue(newSigner(f, oneSecret))
	f.Add(value, here.Site, here.Cookie, int64(0))
	f.Add(old, here.Site, here.Cookie, int64(DefaultLifetime))
	f.Add(value[:ValueSize-1]+"\n", "example.org", PlainCookie, int64(-Skew))
	f.Add(jwt, "", "", int64(-1))
	f.Fuzz(func(t *testing.T, text, site, cookie string, age int64) {
		got, err := s.Verify(t0.Add(time.Duration(age)), Audience{site, cookie}, home, text)
		ours := (text == value || text == old) && site == here.Site && cookie == here.Cookie
		inTime := age >= -int64(Skew) && age < int64(DefaultLifetime)
		if (err == nil) != (ours && inTime) {
			t.Errorf("%q for %q and %q at %v: %+v, %v", text, site, cookie, age, got, err)
		}
		if err != nil && got != (Session{}) {
			t.Errorf("%+v comes with %v", got, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	s := newSigner(b, oneSecret)
	_, value := issue(s)
	for _, c := range []struct{ name, value string }{
		{"good", value}, {"forged", value[:ValueSize-1] + "-"}, {"malformed", jwt},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Verify(t0, here, home, c.value)
			}
		})
	}
}
