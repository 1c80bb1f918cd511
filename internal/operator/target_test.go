package operator

import (
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.9":            "203.0.113.9",
		" 203.0.113.9 ":          "203.0.113.9",
		"address:203.0.113.9":    "203.0.113.9",
		"::ffff:203.0.113.9":     "203.0.113.9",
		"203.0.113.9/24":         "203.0.113.0/24",
		"2001:DB8::1":            "2001:db8::1",
		"2001:db8::1/48":         "2001:db8::/48",
		"api-key:acme/web":       "api-key:acme/web",
		"key:a:b":                "key:a:b",
		"session:1f2e3d4c":       "session:1f2e3d4c",
		"ref:abc":                "ref:abc",
		"":                       "",
		"acme":                   "",
		"key:":                   "",
		"fe80::1%eth0":           "",
		"203.0.113.0/33":         "",
		"address:acme":           "",
		strings.Repeat("1", 2e3): "",
	} {
		target, err := ParseTarget(text)
		switch {
		case want == "" && err == nil:
			t.Errorf("%.40q: got %v, want an error", text, target)
		case want != "" && (err != nil || target.String() != want):
			t.Errorf("%q: got %v, %v, want %v", text, target, err, want)
		}
	}
}
