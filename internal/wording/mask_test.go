package wording

import (
	"strings"
	"testing"
)

func TestMaskText(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.77":                  "203.0.113.0/24",
		"203.0.113.0/24":                "203.0.113.0/24",
		"203.0.0.0/16":                  "203.0.0.0/16",
		"2001:db8:1:2::/64":             "2001:db8:1::/48",
		"2001:db8:1:2:3:4:5:6":          "2001:db8:1::/48",
		"::ffff:203.0.113.77":           "203.0.113.0/24",
		"::1":                           "::/48",
		"fe80::1%eth0":                  "fe80::/48",
		"address:203.0.113.77.":         "address:203.0.113.0/24.",
		"key:2001:db8::1":               "key:2001:db8::/48",
		"203.0.113.77:443 is banned":    "203.0.113.0/24:443 is banned",
		"[2001:db8::1]:443, 192.0.2.9,": "[2001:db8::/48]:443, 192.0.2.0/24,",
		"12:30:45":                      "12:30:45",
		"version 1.2.3.4.5":             "version 1.2.3.0/24.5",
		"300.1.2.3":                     "300.1.2.3",
		"alice":                         "alice",
		"":                              "",
	} {
		if got := MaskText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// No address is left, in any surroundings.
func FuzzMaskText(f *testing.F) {
	for _, seed := range []string{"key:", "2001:db8::1", strings.Repeat(":", 1000), strings.Repeat("1.", 500), strings.Repeat("a:", 500)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := MaskText(text + " 203.0.113.77 2001:db8:1:2::9 " + text)
		if !strings.Contains(got, " 203.0.113.0/24 2001:db8:1::/48 ") {
			t.Errorf("%q: got %q, which has no networks", text, got)
		}
	})
}
