package postgres

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/jackc/pgx/v5/pgconn"
)

// Neither errors nor the identity and place of a store contain a password.
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
		"postgres://tally:s3@geheim@db.example.com/counts":                    "",
		"postgres://tally:s3@geheim,x@db.example.com/counts":                  "",
		"postgres://tally:s3@x/geheim@db.example.com/counts":                  "",
		"postgres://tally:5432/geheim@db.example.com/counts":                  "",
		"postgres://tally:@geheim@db.example.com/counts":                      "",
		"postgres://tally:s3%40geheim@db.example.com/counts":                  "db.example.com:5432/counts",
		"postgres:///counts?host=/run/post@gres&password=geheim":              "/run/post@gres:5432/counts",
	} {
		s := &Store{DSN: dsn}
		err := s.Provision(caddy.Context{})
		if (err != nil) != (address == "") || s.Address() != address {
			t.Errorf("%s: address %q, error %v", dsn, s.Address(), err)
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

// A password with any characters is taken literally, wherever its placeholder is in the DSN: no
// part of it becomes a host, which would appear in errors, in the status and in DNS queries.
func TestPasswordsOfAnyCharacters(t *testing.T) {
	for _, password := range []string{"pa@evil.example/x#y?z", "a/b", "a#b", "a?b=c&d", "a b", `'it''s'`, `back\slash\`, "100%", "%", "{x}", "a:b", "@", "a,b", "ü+&"} {
		t.Setenv("TALLY_TEST_PASSWORD", password)
		t.Setenv("TALLY_TEST_USER", "tal/ly")
		for _, dsn := range []string{
			"postgres://tally:{env.TALLY_TEST_PASSWORD}@db.example.com/counts",
			"postgres://{env.TALLY_TEST_USER}:{env.TALLY_TEST_PASSWORD}@db.example.com/counts?sslmode=disable",
			"postgresql://tally@db.example.com/counts?password={env.TALLY_TEST_PASSWORD}",
			"host=db.example.com dbname=counts user=tally password='{env.TALLY_TEST_PASSWORD}'",
			"password = '{env.TALLY_TEST_PASSWORD}' host='db.example.com' dbname=counts",
		} {
			s := &Store{DSN: dsn}
			if err := s.Provision(caddy.Context{}); err != nil || s.Address() != "db.example.com:5432/counts" {
				t.Errorf("%s with %q: address %q (%v)", dsn, password, s.Address(), err)
				continue
			}
			expanded, _ := s.expand()
			if config, err := pgconn.ParseConfig(expanded); err != nil || config.Password != password {
				t.Errorf("%s with %q: the password is %q (%v)", dsn, password, config.Password, err)
			}
		}
	}
}

// Percent-encoded values, hosts, options and whole DSNs are taken literally as well.
func TestPlaceholdersElsewhereInADSN(t *testing.T) {
	for _, c := range []struct{ value, dsn, password, address string }{
		{"pa%40ss%2F", "postgres://tally:{env.TALLY_TEST}@db/counts", "pa@ss/", "db:5432/counts"},
		{"tally:pa@ss", "postgres://{env.TALLY_TEST}@db/counts", "pa@ss", "db:5432/counts"},
		{"a.example:5433,b.example", "postgres://tally:x@{env.TALLY_TEST}/counts", "x", "a.example:5433,b.example:5432/counts"},
		{"sslmode=disable&target_session_attrs=any", "postgres://tally:x@db/counts?{env.TALLY_TEST}", "x", "db:5432/counts"},
		{"postgres://tally:x@db/counts\n", "{env.TALLY_TEST}", "x", "db:5432/counts"},
		{"db", "host={env.TALLY_TEST} dbname=counts password=x", "x", "db:5432/counts"},
		{"plain", "host=db dbname=counts password={env.TALLY_TEST}", "plain", "db:5432/counts"},
	} {
		t.Setenv("TALLY_TEST", c.value)
		s := &Store{DSN: c.dsn}
		if err := s.Provision(caddy.Context{}); err != nil || s.Address() != c.address {
			t.Errorf("%s with %q: address %q (%v)", c.dsn, c.value, s.Address(), err)
			continue
		}
		expanded, _ := s.expand()
		if config, err := pgconn.ParseConfig(expanded); err != nil || config.Password != c.password {
			t.Errorf("%s with %q: the password is %q (%v)", c.dsn, c.value, config.Password, err)
		}
	}
	t.Setenv("TALLY_TEST", "two words")
	s := &Store{DSN: "host=db password={env.TALLY_TEST}"}
	if err := s.Provision(caddy.Context{}); err == nil || strings.Contains(err.Error(), "two") || !strings.Contains(err.Error(), "put the placeholder in quotes") {
		t.Errorf("a password that needs quotes: %v", err)
	}
}
