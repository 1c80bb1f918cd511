package operator

import (
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/rules"
)

func TestParseTarget(t *testing.T) {
	reference := strings.Repeat("0a1B", 16)
	grouped := reference[:32] + "-" + reference[32:60] + " " + reference[60:]
	for text, want := range map[string]string{
		"203.0.113.9":            "203.0.113.9",
		" 203.0.113.9 ":          "203.0.113.9",
		"address:203.0.113.9":    "203.0.113.9",
		"::ffff:203.0.113.9":     "203.0.113.9",
		"203.0.113.0/24":         "203.0.113.0/24",
		"203.0.113.9/24":         "",
		"2001:DB8::1":            "2001:db8::1",
		"2001:DB8::/48":          "2001:db8::/48",
		"api-key:acme/web":       "api-key:acme/web",
		"key:a:b":                "key:a:b",
		"key:Jane Doe":           `key:"Jane Doe"`,
		`key:"Jane Doe"`:         `key:"Jane Doe"`,
		`key:"a\tb"`:             `key:"a\tb"`,
		`key:"a"`:                "", // are the quotes its own?
		`api-key:"acme"`:         "",
		`key:"\x61"`:             "",
		`key:"a`:                 `key:"\"a"`,
		`key:""`:                 `key:"\"\""`,
		"session:1f2e3d4c":       "session:1f2e3d4c",
		"ref:abc":                "ref:abc",
		reference:                "ref:" + reference,
		grouped:                  "ref:" + reference,
		"urn:caddy-tally:abc":    "ref:abc",
		reference + "0":          "",
		reference[1:] + "_":      "",
		"":                       "",
		"acme":                   "",
		"key:":                   "",
		"urn:caddy-tally:":       "",
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

func TestTargetsKeepOddValues(t *testing.T) {
	for _, value := range []string{"Jane Doe", `a "b" \c`, "a\nb", "\xff", `""`, `"a"`, "'a'", "`a`"} {
		want := Target{Kind: KeyText, Value: value}
		if got, err := ParseTarget(want.String()); err != nil || got != want {
			t.Errorf("%q is written as %s, and read as %q, %v", value, want, got.Value, err)
		}
	}
}

// A client whose key is "victim", with quotes, was banned as victim by who typed what the log shows.
func TestQuotesMayBelongToTheKey(t *testing.T) {
	_, err := ParseTarget(`key:"victim"`)
	const want = `client: got key:"victim": write key:victim without quotes, or key:"\"victim\"" if the quotes belong to it`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	for text, value := range map[string]string{"key:victim": "victim", `key:"\"victim\""`: `"victim"`} {
		if got, err := ParseTarget(text); err != nil || got.Value != value {
			t.Errorf("%s: got %q, %v", text, got.Value, err)
		}
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]bool{
		"login": true, "key:a@b.example/c_d-e": true, "2001:db8::/48": true, "tag:3fa9c1": true,
		"": false, "-x": false, "--force": false, "a b": false, "a\n": false, "$(id)": false, "`id`": false, "a;b": false, "~": false, "a*": false,
		"é": false, "a'": false, `a"`: false, `a\`: false, "!1": false, "a=b": false, "\x00": false, "\xff": false,
	} {
		if got := IsWord(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// An address in a network is a mistake, as in the rules file: who bans 10.0.0.5/8 bans 16 million others.
func TestNetworksWithHostBits(t *testing.T) {
	for _, text := range []string{"10.0.0.5/8", "address:10.0.0.5/8", " 10.0.0.5/8 ", "2001:db8::1/32", "::ffff:10.0.0.5/104", "0.0.0.1/0"} {
		_, ruled := rules.ParseTarget(strings.TrimSpace(text))
		if target, err := ParseTarget(text); err == nil || ruled == nil || !strings.Contains(err.Error(), "which is an address in a network: expected") {
			t.Errorf("%q is %v, %v; in a file %v", text, target, err, ruled)
		}
	}
	for _, text := range []string{"10.0.0.0/8", "10.0.0.5/32", "2001:db8::/32", "::ffff:10.0.0.0/104", "::/0"} {
		if _, err := ParseTarget(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
