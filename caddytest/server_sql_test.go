package caddytest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// onPostgres is a Caddyfile whose counts are on a server that several Caddys share.
var onPostgres = options(`
	rate_limit {
		store postgres {env.DSN}
		secret_file {$SECRET}
		store_timeout 5s
	}
	`+trusting) + site("rate_limit {\ntrap ban 1h /.env\nzone z {\nper ip\nlimit 100/1h\n}\n}\nrespond hello")

// Two Caddys count together on a Postgres: through a kill of one of them, a ban by
// one of them, and a kill of the server, also for one that is started meanwhile.
func TestTwoCaddysShareAPostgres(t *testing.T) {
	t.Parallel()
	db, err := testserver.Postgres()
	if errors.Is(err, testserver.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	config, secret := onPostgres, filepath.Join(t.TempDir(), "tally.key")
	if err := os.WriteFile(secret, []byte(strings.Repeat("a secret of all machines ", 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"SECRET=" + secret, "DSN=" + db.DSN(db.Port)}
	first, second := startCaddy(t, config, env...), startCaddy(t, config, env...)
	from := func(client string) []string { return []string{"X-Forwarded-For: " + client} }

	first.wantPassed(60, 60, "/", from("192.0.2.1")...)
	if more := second.passed(60, "/", from("192.0.2.1")...) + first.passed(60, "/", from("192.0.2.1")...); more != 40 {
		t.Errorf("after 60 of 100 requests passed on one machine, %d more did on both", more)
	}
	first.kill()
	first.start()
	first.wantPassed(0, 5, "/", from("192.0.2.1")...)

	second.get("/", from("192.0.2.2")...) // knows the client
	first.get("/.env", from("192.0.2.2")...)
	waitFor(t, "a ban of the other machine", func() bool {
		return second.get("/", from("192.0.2.2")...).status == http.StatusTooManyRequests
	})

	first.wantCommand(t, 0, []string{"ban", "192.0.2.9"}, "on all machines that share the store")
	waitFor(t, "a ban by an operator on the other machine", func() bool {
		return second.get("/", from("192.0.2.9")...).status == http.StatusTooManyRequests
	})
	second.wantCommand(t, 0, []string{"unban", "192.0.2.9"}, "Lifted 1 ban of 192.0.2.9")
	waitFor(t, "the end of the ban on the other machine", func() bool {
		return first.get("/", from("192.0.2.9")...).status == http.StatusOK
	})

	db.Kill()
	third := startCaddy(t, config, env...)
	all := []*server{first, second, third}
	var passed []int
	for _, s := range all {
		s.get("/", from("192.0.2.3")...)
		s.awaitDegraded()
		passed = append(passed, s.passed(100, "/", from("192.0.2.4")...))
	}
	checkShares(t, passed[0], passed[1], passed[2])
	if err := db.Start(); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		waitFor(t, "the server to be in use again", func() bool { return !s.health().Degraded })
	}
	for _, s := range all {
		s.wantPassed(0, 5, "/", from("192.0.2.1")...)
		if logs := s.logs(); strings.Contains(logs, testserver.Password) || !strings.Contains(logs, "the store can't be used") {
			t.Errorf("the log has the password, or nothing about the outage:\n%s", logs)
		}
	}
}

// checkShares checks how many of 100 requests each Caddy let through in an outage: two that know of
// each other at most 40 together, a half each, or a third while one that was killed still counts,
// and one that started in the outage, and knows of nobody, 40.
func checkShares(t *testing.T, first, second, alone int) {
	t.Helper()
	const most = 40
	if first+second > most || min(first, second) < most/3 || alone != most {
		t.Errorf("in an outage %d and %d of 100 passed two Caddys that know of each other, and %d a third", first, second, alone)
	}
}
