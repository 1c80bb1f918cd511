package identity

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

var (
	here  = netip.MustParsePrefix("192.0.2.1/32")
	there = netip.MustParsePrefix("2001:db8::/64")
)

var firefox = Hints{
	UserAgent:      "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
	AcceptLanguage: "de-CH,de;q=0.8,en;q=0.5",
}

var chromium = Hints{
	UserAgent:      "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
	AcceptLanguage: "en-GB,en;q=0.9",
	Platform:       `"Android"`,
	Mobile:         "?1",
}

func fingerprint(prefix netip.Prefix, h Hints) string {
	return string(AppendFingerprint(nil, prefix, h))
}

func TestFingerprintsTellBrowsersApart(t *testing.T) {
	seen := make(map[string]string)
	for what, key := range map[string]string{
		"firefox":             fingerprint(here, firefox),
		"firefox elsewhere":   fingerprint(there, firefox),
		"chromium":            fingerprint(here, chromium),
		"no hints":            fingerprint(here, Hints{}),
		"another language":    fingerprint(here, Hints{UserAgent: firefox.UserAgent, AcceptLanguage: "fr"}),
		"another platform":    fingerprint(here, Hints{UserAgent: chromium.UserAgent, AcceptLanguage: "en", Platform: `"Linux"`, Mobile: "?1"}),
		"not mobile":          fingerprint(here, Hints{UserAgent: chromium.UserAgent, AcceptLanguage: "en", Platform: `"Android"`, Mobile: "?0"}),
		"a hint in its place": fingerprint(here, Hints{UserAgent: chromium.UserAgent + `"Android"`, AcceptLanguage: "en", Mobile: "?1"}),
		"hints changed round": fingerprint(here, Hints{UserAgent: chromium.UserAgent, AcceptLanguage: "en", Platform: "?1", Mobile: "Android"}),
		"led by a link":       fingerprint(here, by(Link, chromium)),
		"led by a sibling":    fingerprint(here, by(SameSite, chromium)),
		"led by another site": fingerprint(here, by(CrossSite, chromium)),
		"led by who knows":    fingerprint(here, by(Unsaid, chromium)),
	} {
		if twin, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", what, twin)
		}
		seen[key] = what
		if !strings.HasPrefix(key, string(AppendPrefix(nil, here))) && what != "firefox elsewhere" {
			t.Errorf("the key of %s does not begin with its network", what)
		}
	}
}

func by(initiator Initiator, h Hints) Hints {
	h.Initiator = initiator
	return h
}

// A page can choose the language that its visitors' browsers send to other sites. That makes no
// further clients of them.
func TestOtherSitesChooseNoFingerprint(t *testing.T) {
	for _, initiator := range []Initiator{Link, SameSite, CrossSite} {
		h := by(initiator, chromium)
		want := fingerprint(here, h)
		for _, language := range []string{"", "fr", "*", "x"} {
			h.AcceptLanguage = language
			if fingerprint(here, h) != want {
				t.Errorf("%v: another key for the language %q", initiator, language)
			}
		}
		if fingerprint(here, h.Own()) == want {
			t.Errorf("%v: the key of the same browser's own visit", initiator)
		}
	}
}

// Requests of one browser for other kinds of content give the same fingerprint.
func TestFingerprintsOfOneBrowserAreOne(t *testing.T) {
	want := fingerprint(here, chromium)
	for what, change := range map[string]func(*Hints){
		"languages by resource": func(h *Hints) { h.AcceptLanguage = "en-GB" },
		"languages in capitals": func(h *Hints) { h.AcceptLanguage = " EN;q=0.9, de" },
		"no quotation marks":    func(h *Hints) { h.Platform = "Android" },
	} {
		h := chromium
		change(&h)
		if fingerprint(here, h) != want {
			t.Errorf("%s: another key", what)
		}
	}
	mapped, _ := Prefix("::ffff:192.0.2.1", 32, 64)
	if fingerprint(mapped, chromium) != want {
		t.Error("a mapped address has another key")
	}
}

// Invented values of any length give a key of the usual length, and new values don't always give a
// new key.
func TestFingerprintsAreBounded(t *testing.T) {
	long := strings.Repeat("Mozilla/5.0 ", 100_000)
	got := fingerprint(here, Hints{UserAgent: long, AcceptLanguage: strings.Repeat("x", 1000), Platform: long, Mobile: long})
	if len(got) != len(fingerprint(here, Hints{})) {
		t.Errorf("a key of %d bytes", len(got))
	}
	if got != fingerprint(here, Hints{UserAgent: long + "tail", AcceptLanguage: strings.Repeat("x", 999), Platform: long + "tail", Mobile: long + "tail"}) {
		t.Error("what lies beyond the bound counts")
	}
}

func TestFingerprintsAllocateNothing(t *testing.T) {
	key := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { AppendFingerprint(key, there, chromium) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Equivalent hints give the same key, and the existing content of key stays unchanged.
func FuzzFingerprint(f *testing.F) {
	f.Add(firefox.UserAgent, firefox.AcceptLanguage, "", "", []byte("i"))
	f.Add(chromium.UserAgent, chromium.AcceptLanguage, chromium.Platform, chromium.Mobile, []byte(nil))
	f.Add("", "*", `"`, `"""`, []byte{0})
	f.Fuzz(func(t *testing.T, agent, language, platform, mobile string, before []byte) {
		h := Hints{UserAgent: agent, AcceptLanguage: language, Platform: platform, Mobile: mobile}
		key := AppendFingerprint(bytes.Clone(before), here, h)
		rest, ok := bytes.CutPrefix(key, before)
		if !ok || string(rest) != fingerprint(here, h) || len(rest) != 5+FingerprintSize {
			t.Errorf("%x after %x", key, before)
		}
		if len(agent) < maxUserAgent && fingerprint(here, Hints{UserAgent: agent + "x", AcceptLanguage: language, Platform: platform, Mobile: mobile}) == string(rest) {
			t.Error("a longer User-Agent has the same key")
		}
	})
}

func BenchmarkFingerprint(b *testing.B) {
	b.ReportAllocs()
	key := make([]byte, 0, 64)
	for b.Loop() {
		AppendFingerprint(key, there, chromium)
	}
}
