package postgres

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	tally "github.com/caddy-tally/caddy-tally"
)

var _ tally.NetworkStore = (*Store)(nil)

// Neither errors nor what a store is identified by show a password, and where the counts are does
// not either.
func TestPasswordsAreNotTold(t *testing.T) {
	t.Setenv("TALLY_TEST_PASSWORD", "geheim")
	identities := make(map[string]string)
	for dsn, address := range map[string]string{
		"postgres://tally:geheim@db.example.com/counts":                       "db.example.com:5432/counts",
		"postgres://tally:{env.TALLY_TEST_PASSWORD}1@db.example.com/counts":   "db.example.com:5432/counts",
		"host=a,b port=1,2 user=tally password=geheim dbname=x":               "a:1,b:2/x",
		"postgres://tally:geheim%@db.example.com/counts":                      "",
		"host=db password=geheim sslrootcert=/not/there sslmode=verify-full":  "",
		"postgres://tally:{env.TALLY_TEST_NOT_THERE}geheim@db.example.com/db": "db.example.com:5432/db",
		"{env.TALLY_TEST_NOT_THERE}":                                          "",
	} {
		s := &Store{DSN: dsn}
		err := s.Provision(caddy.Context{})
		if (err != nil) != (address == "") || s.address != address {
			t.Errorf("%s: address %q, error %v", dsn, s.address, err)
		}
		if err != nil && strings.Contains(err.Error(), "geheim") || strings.Contains(s.Identity(), "geheim") {
			t.Errorf("%s: %v, %s", dsn, err, s.Identity())
		}
		if other := identities[s.Identity()]; err == nil && other != "" {
			t.Errorf("%s and %s have one identity", dsn, other)
		}
		identities[s.Identity()] = dsn
	}
}
