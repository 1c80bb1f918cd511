package caddytest

import (
	"path/filepath"
	"strings"
	"testing"
)

// Whoever changes an option in an outage, as the remedies for it say, hands out no share again: the
// engine goes on with what memory knows. What it admitted is charged once when the store is back.
func TestReloadsInAnOutageHandOutNothingAgain(t *testing.T) {
	t.Parallel()
	conf := func(options string) string {
		store, more, _ := strings.Cut(options, "|")
		return strings.Replace(failing("{$DIR}/tally.db {\n"+store+"\n}\n"+more), "store_timeout 1m", "", 1)
	}
	const first = "journal off|store_timeout 1s"
	s := startCaddy(t, conf(first))
	s.awaitRecovery()
	unlock := lockDatabase(t, filepath.Join(s.dir, "tally.db"))
	s.awaitDegraded()
	s.wantPassed(4, 10, "/", from(1))
	for _, options := range []string{
		"journal off|store_timeout 2s", "journal on|store_timeout 1s", "journal off\nmax_size 2MiB|store_timeout 1s",
		"journal off\nsynchronous full|store_timeout 1s", "journal off|store_timeout 1s\nmax_keys 1000",
		"journal off|store_timeout 1s\ncleanup_interval 2m", "journal off|store_timeout 1s\ndegraded_limit 30%", first,
	} {
		s.mustReload(conf(options))
		if s.wantPassed(0, 3, "/", from(1)); !s.health().Degraded {
			t.Errorf("%q ended the outage", options)
		}
	}
	unlock()
	s.awaitRecovery()
	s.wantPassed(6, 10, "/", from(1))
	s.kill()
	s.start()
	s.awaitRecovery()
	s.wantPassed(0, 2, "/", from(1))
}
