package config

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// The error about a store that is missing from this Caddy names its package, and a password in
// place of a store's name is not quoted.
func TestUnknownStore(t *testing.T) {
	for name, want := range map[string]string{
		"redis":                          "build it with xcaddy build --with github.com/caddy-tally/caddy-tally --with github.com/caddy-tally/caddy-tally/storage/redis",
		"rediss://:geheim@cache":         "write store redis rediss://…",
		"postgresql://a:geheim@db/tally": "write store postgres postgresql://…",
		"mysql://a:geheim@db/tally":      "write store mysql mysql://…",
		"/var/lib/tally.db":              "write store sqlite /var/lib/tally.db",
	} {
		d := caddyfile.NewTestDispenser("rate_limit {\n\tstore " + name + "\n}")
		err := unknownStore(d, name)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("store %s: error is %v, want %q in it", name, err, want)
		}
		if by := new(App).Unmarshal(d); by == nil || !strings.Contains(by.Error(), want) {
			t.Errorf("store %s in a Caddyfile: error is %v, want %q in it", name, by, want)
		}
	}
}
