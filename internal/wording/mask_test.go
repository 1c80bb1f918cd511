package wording

import (
	"strings"
	"testing"
)

func TestMaskText(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.77":                      "203.0.113.0/24",
		"203.0.113.0/24":                    "203.0.113.0/24",
		"203.0.0.0/16":                      "203.0.0.0/16",
		"2001:db8:1:2::/64":                 "2001:db8:1::/48",
		"2001:db8:1:2:3:4:5:6":              "2001:db8:1::/48",
		"::ffff:203.0.113.77":               "203.0.113.0/24",
		"::1":                               "::/48",
		"fe80::1%eth0":                      "fe80::/48",
		"address:203.0.113.77.":             "address:203.0.113.0/24.",
		"key:2001:db8::1":                   "key:2001:db8::/48",
		"203.0.113.77:443 is banned":        "203.0.113.0/24:443 is banned",
		"[2001:db8::1]:443, 192.0.2.9,":     "[2001:db8::/48]:443, 192.0.2.0/24,",
		"12:30:45":                          "12:30:45",
		"version 1.2.3.4.5":                 "version 1.2.3.0/24.5",
		"300.1.2.3":                         "300.1.2.3",
		"Chrome/120.0.0.0 Safari/537.36":    "Chrome/120.0.0.0 Safari/537.36",
		"10.0.0.0/16":                       "10.0.0.0/16",
		"x/203.0.113.77":                    "x/203.0.113.0/24",
		"alice":                             "alice",
		"2002:cb00:714d::1":                 "203.0.113.0/24",
		"2002:cb00:714d::/48":               "2002:cb00:7100::/40",
		"64:ff9b::203.0.113.77|GET":         "203.0.113.0/24|GET",
		"2001:db8::1.443":                   "2001:db8…",
		"2002:cb00:714d::1.443":             "2002:cb00…",
		"2002:cb00:714d:1:2:3:4:5:443":      "2002:cb00…",
		"2001:db8::1.GET":                   "2001:db8::/48.GET",
		"ip=2001%3Adb8%3A%3A1":              "ip=2001:db8::/48",
		"ip=2001%253adb8%253A:1&a":          "ip=2001:db8::/48&a",
		"2001:db8:1:2:3:4:5:6:443":          "2001:db8:1…",
		"2001:db8:1:2:3:4:5:6:7:8":          "2001:db8:1…",
		"2001:db8:1:2:3:4:5:6:203.0.113.77": "2001:db8:1…",
		"a:2001:db8:1:2:3:4:5:6":            "a:2001:db8…",
		"1::2:3.4":                          "1…",
		"aa:bb:cc:dd:ee:ff":                 "aa:bb:cc:dd:ee:ff",
		"77.113.0.203.in-addr.arpa":         "….113.0.203.in-addr.arpa",
		"host-203-0-113-77.example":         "host-203-0-113-….example",
		"203_0_113_77":                      "203_0_113_…",
		"203.000.113.077":                   "203.0.113.0/24",
		"203%2E0%2e113%252E77":              "203.0.113.0/24",
		"203.0.113.77/33":                   "203.0.113.0/24",
		"2026-11-27":                        "2026-11-27",
		"550e8400-e29b-41d4-a716-4466":      "550e8400-e29b-41d4-a716-4466",
		"":                                  "",
	} {
		if got := MaskText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// No address is left, in any surroundings.
func FuzzMaskText(f *testing.F) {
	for _, around := range [][2]string{{"", ".443"}, {"", ":443"}, {"a:", ""}, {"", "|GET"}, {"ip=", "&a"}, {"[", "]:443"}, {"x-", ".dyn"}, {"7:", ":7"}} {
		for address, rest := range map[string]string{"203.0.113.77": "113.77", "203-0-113-77": "113-77", "203.000.113.077": "113.077", "2001:db8:1:2::9": ":2:", "2001:db8:1:2:3:4:5:9": ":4:5", "2001%3Adb8:1:2:3:4:5:9": ":4:5", "2002:cb00:714d::1": "714d"} {
			if got := MaskText(around[0] + address + around[1]); strings.Contains(got, rest) {
				f.Errorf("%s in %q: got %q, which has the end of it", address, around, got)
			}
		}
	}
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
