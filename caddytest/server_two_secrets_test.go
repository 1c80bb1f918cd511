package caddytest

import (
	"strings"
	"testing"
)

// Two processes with the same database and two secrets would count apart. The second one doesn't use
// the database, and says so in its log and status; as soon as a further line of its file is the other's
// secret, both count together.
func TestTwoSecretsOnOneDatabase(t *testing.T) {
	t.Parallel()
	config := options("rate_limit {\nstore sqlite {$SHARED}/tally.db\nsecret_file {$DIR}/secret\nstore_timeout 5s\n}\n"+trusting) +
		site("rate_limit {\nzone t {\nper key {http.request.header.Tenant}\nlimit 20/1h\n}\n}\nrespond hello")
	first, second := strings.Repeat("first ", 7)+"\n", strings.Repeat("second ", 7)+"\n"
	shared := "SHARED=" + t.TempDir()
	one, two := newServer(t, config, shared), newServer(t, config, shared)
	one.writeSecret(first)
	one.start()
	one.wantPassed(10, 10, "/", "Tenant: acme")
	two.writeSecret(second)
	two.start()
	const message = "the database is in use under another secret ("
	if h := two.health(); !h.Degraded || !strings.Contains(h.Reason, message) {
		t.Errorf("health is %+v", h)
	}
	two.wantCommand(t, 0, []string{"status"}, message)
	if len(two.logLines("the store can't be used; reduced limits are kept in memory until it can")) == 0 || !strings.Contains(two.logs(), message) {
		t.Error("nothing is logged")
	}

	two.stop()
	two.writeSecret(second + first)
	two.start()
	two.wantPassed(10, 20, "/", "Tenant: acme")
	one.stop()
	two.stop()
	two.start() // alone: the first line is the one in use, and the key of names is the same
	two.wantPassed(0, 5, "/", "Tenant: acme")
	two.stop()
	two.writeSecret(second)
	two.start()
	two.wantPassed(0, 5, "/", "Tenant: acme")
	two.stop()
	one.writeSecret(strings.Repeat("third ", 7) + "\n")
	one.start() // as after the loss of the secret
	one.wantPassed(20, 25, "/", "Tenant: acme")
	for _, message := range []string{"the database was made under another secret (", "no line of secret_file opened the file"} {
		one.wantCommand(t, 0, []string{"status"}, message)
		if lines := strings.Count(one.logs(), message); lines != 1 {
			t.Errorf("%d lines say %q, want 1", lines, message)
		}
	}
}
