package mysql

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// Neither errors nor the identity of a store contain a password.
func TestPasswordsAreNotTold(t *testing.T) {
	for dsn, address := range map[string]string{
		"tally:geheim@tcp(db.example.com)/counts": "db.example.com:3306/counts",
		"mysql://tally:geheim@db":                 "",
		"tally:geheim@tcp(db/counts":              "",
		"tally:geheim@tcp(db)/x?tls=geheim2":      "",
	} {
		s := &Store{DSN: dsn}
		err := s.Provision(caddy.Context{})
		if (err != nil) != (address == "") || s.Address() != address {
			t.Errorf("%s: address %q, error %v", dsn, s.Address(), err)
		}
		if err != nil && strings.Contains(err.Error(), "geheim") || strings.Contains(s.Identity(), "geheim") {
			t.Errorf("%s: %v, %s", dsn, err, s.Identity())
		}
	}
}
