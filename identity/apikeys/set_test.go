package apikeys

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"
)

// today is the time in all tests.
var today = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const testSalt = "000102030405060708090a0b0c0d0e0f"

// line returns the line of a key, hashed independently of the package.
func line(name, tier, key string) string {
	salt := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	m := hmac.New(sha256.New, salt)
	m.Write([]byte(key))
	return fmt.Sprintf("%s %s %x\n", name, tier, m.Sum(nil))
}

func TestFind(t *testing.T) {
	text := "# a comment\n\nsalt " + testSalt + "\n" + line("acme", "free", "k1") + line("acme", "free", "k2") +
		"  # another\n" + strings.ReplaceAll(line("acme/shop", "vendor", strings.Repeat("x", MaxKey)), " ", "\t  ")
	s, err := Parse([]byte(text), []string{"free", "vendor"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]Holder{
		"k1":                        {Name: "acme", Tier: "free"},
		"k2":                        {Name: "acme", Tier: "free"},
		strings.Repeat("x", MaxKey): {Name: "acme/shop", Tier: "vendor"},
	} {
		if got := s.Find(key, today); got == nil || *got != want {
			t.Errorf("%.8q is %+v, want %+v", key, got, want)
		}
	}
	for _, key := range []string{"", "k", "k3", "K1", "k1 ", " k1", "k1\x00", strings.Repeat("x", MaxKey+1), strings.Repeat("x", MaxKey-1)} {
		if got := s.Find(key, today); got != nil {
			t.Errorf("%.8q is %+v, want nobody", key, got)
		}
	}
	if got := fmt.Sprint(s.Tiers(today)); got != "map[free:2 vendor:1]" {
		t.Errorf("keys by tier are %s", got)
	}
	var none *Set
	if none.Find("k1", today) != nil || len(none.Tiers(today)) != 0 {
		t.Error("nobody's set has keys")
	}
}

func TestParseErrors(t *testing.T) {
	salt := "salt " + testSalt + "\n"
	a := line("acme", "free", "k1")
	for _, tt := range []struct{ text, want string }{
		{"", "there is no line `salt …`, which a file of keys begins with"},
		{"# only words\n", "there is no line `salt …`, which a file of keys begins with"},
		{a, "line 1: a key comes before the line `salt …`, which a file of keys begins with"},
		{"salt 00\n", "line 1: the salt must be at least 32 hexadecimal digits"},
		{"salt " + strings.Repeat("x", 32), "line 1: the salt must be at least 32 hexadecimal digits"},
		{salt + salt, "line 2: a second salt; each file of keys has its own, and one can't be appended to another"},
		{salt + "\n\nacme free\n", "line 4: has 2 words, expected three: name, tier and hash; or until and a time behind them"},
		{salt + "acme free 00 x\n", "line 2: has 4 words, expected three: name, tier and hash; or until and a time behind them"},
		{salt + "acme free 00\n", "line 2: the hash must have 64 hexadecimal digits, got 2 characters"},
		{salt + "acme free " + strings.Repeat("x", 64), "line 2: the hash must be hexadecimal digits"},
		{salt + a + "# \n" + a, "line 4: the hash is that of line 2"},
		{salt + a + line("acme", "gold", "k2"), "line 3: acme has the tier gold here and free in line 2; a name has one"},
		{salt + line("acme", "silver", "k2"), `line 2: acme has the tier "silver", which is none of those configured: free, gold; name one of them, or add the tier to the config`},
		{salt + line("a/b/c", "free", "k2"), `line 2: the name must be letters, digits and . _ - such as acme or vendor/product, at most 64, got "a/b/c"`},
		{salt + line("salt", "free", "k2"), `line 2: the name can't be "salt": it has a meaning of its own in a file of keys`},
		{salt + line("acme", "fr/ee", "k2"), `line 2: a tier must be letters, digits and . _ - such as free, at most 64, got "fr/ee"`},
	} {
		if _, err := Parse([]byte(tt.text), []string{"free", "gold"}); err == nil || err.Error() != tt.want {
			t.Errorf("%q: error is\n%v, want\n%s", tt.text, err, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, good := range []string{"a", "acme", "Acme.Inc_2-x", "vendor/product", "0/0", strings.Repeat("a", 64)} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/", "a/", "/a", "a/b/c", "a b", "-a", ".", "a/-b", "é", "a\n", "a#", "a:b", strings.Repeat("a", 65)} {
		if err := CheckName(bad); err == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
}

// Any file is either read or rejected, and each key of a file that is read is found.
func FuzzParse(f *testing.F) {
	f.Add("salt " + testSalt + "\n" + line("acme", "free", "k1"))
	f.Add("salt x\n# \nacme free 00")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse([]byte(text), nil)
		if err != nil {
			return
		}
		for _, client := range s.clients {
			if client.check(nil) != nil {
				t.Errorf("%+v was read from %q", client, text)
			}
		}
	})
}

func TestKeysExpire(t *testing.T) {
	until := func(key, end string) string {
		return strings.TrimSpace(line("acme", "free", key)) + " until " + end + "\n"
	}
	s, err := Parse([]byte("salt "+testSalt+"\n"+line("acme", "free", "for ever")+until("a day", "2026-11-23")+until("a second", "2026-11-22T12:00:01Z")+until("no more", "2026-11-22T12:00:00Z")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"for ever": true, "a day": true, "a second": true, "no more": false} {
		if got := s.Find(key, today) != nil; got != want {
			t.Errorf("%s: in force is %v", key, got)
		}
	}
	if s.Find("a second", today.Add(time.Second)) != nil || s.Find("a day", today.Add(12*time.Hour)) != nil || s.Find("for ever", today.Add(1e6*time.Hour)) == nil {
		t.Error("keys don't end when they should")
	}
	if got := s.Tiers(today)["free"]; got != 3 {
		t.Errorf("%d keys are in force, want 3", got)
	}
	for end, says := range map[string]string{"": "expected three", "tomorrow": "until: got \"tomorrow\", expected a date such as", "2026-12-01 more": "expected three"} {
		if _, err := Parse([]byte("salt "+testSalt+"\n"+until("k", end)), nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("until %s: got %v, want %s", end, err, says)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	text := "salt " + testSalt + "\n"
	for i := range 1000 {
		text += line(fmt.Sprintf("c%d", i), "free", fmt.Sprint(i))
	}
	s, err := Parse([]byte(text), nil)
	if err != nil {
		b.Fatal(err)
	}
	key := "tally_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	b.ReportAllocs()
	for b.Loop() {
		s.Find(key, today)
	}
}
