package postgres

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// A password with any characters stands for itself: no part of it is taken for the host, which the
// status shows.
func TestPasswordsOfAnyCharacters(t *testing.T) {
	for _, password := range []string{"pa@evil.example/x#y?z", "a b", "100%"} {
		t.Setenv("TALLY_TEST_PASSWORD", password)
		e := &Exchange{DSN: "postgres://tally:{env.TALLY_TEST_PASSWORD}@db.example.com/counts"}
		if err := e.Provision(caddy.Context{}); err != nil || e.Place() != "db.example.com:5432/counts" || e.server.config.Password != password {
			t.Errorf("%q: %v, at %s", password, err, e.Place())
		}
	}
}
