package caddytest

import (
	"strconv"
	"strings"
	"testing"
)

// refusedFor returns how long a refused request is told to wait, in seconds; 0 if it passes.
func (s *server) refusedFor(path, from string) int {
	s.t.Helper()
	seconds, _ := strconv.Atoi(s.get(path, "X-Forwarded-For: "+from).header.Get("Retry-After"))
	return seconds
}

// goOver sends requests until one is refused.
func (s *server) goOver(path, from string) {
	s.t.Helper()
	waitFor(s.t, "a refusal", func() bool { return s.refusedFor(path, from) > 0 })
}

// awaitUnits waits until requests of a new client pass that goes over its limit now, so that units that were used before
// are free, too.
func (s *server) awaitUnits(from string) {
	s.t.Helper()
	s.goOver("/short", from)
	waitFor(s.t, "units to be free", func() bool { return s.refusedFor("/short", from) == 0 })
}

// A key that goes over a limit with block stays refused, whatever is free meanwhile and whatever becomes of the process.
func TestBlockOutlastsItsWindow(t *testing.T) {
	t.Parallel()
	caddyfile := config("zone short {\nmatch /short\nlimit 1/1s\n}\nzone login {\nmatch /login\nper ip\nlimit 1/1s block 1h\n}\nzone trial {\nmatch /trial\nlimit 1/1s block 1h shadow\n}")
	s := startCaddy(t, caddyfile)
	isBlocked := func(when string) {
		t.Helper()
		if seconds := s.refusedFor("/login", "192.0.2.1"); seconds < 3400 || seconds > 3700 {
			t.Errorf("%s: refused for %d seconds, want an hour", when, seconds)
		}
	}
	s.goOver("/login", "192.0.2.1")
	isBlocked("at once")
	s.awaitUnits("192.0.2.7")
	isBlocked("later")
	s.wantPassed(1, 1, "/login", "X-Forwarded-For: 192.0.2.2")

	s.kill()
	s.start()
	isBlocked("after kill -9")
	s.wantCommand(t, 0, words("blocked"), "192.0.2.1", "block 1h")
	s.wantCommand(t, 0, words("explain 192.0.2.1"), "block 1h", "is refused by limit login of zone login")

	s.stop()
	s.start()
	isBlocked("after a restart")
	s.mustReload(strings.ReplaceAll(caddyfile, "limit 1/1s block 1h\n", "limit 4/1s block 2h\n"))
	isBlocked("after a reload with another amount and time")
	s.mustReload(strings.ReplaceAll(caddyfile, " block 1h\n", "\n"))
	s.wantPassed(1, 1, "/login", "X-Forwarded-For: 192.0.2.1")
	s.mustReload(caddyfile)
	isBlocked("after a reload without block and one with it")

	s.wantCommand(t, 0, words("raise 2x 192.0.2.1"))
	s.wantPassed(1, 1, "/login", "X-Forwarded-For: 192.0.2.1")
	s.wantCommand(t, 0, words("unraise 192.0.2.1"))
	isBlocked("when a raise is over")

	s.wantCommand(t, 0, words("reset 192.0.2.1"))
	s.wantPassed(1, 1, "/login", "X-Forwarded-For: 192.0.2.1")
	s.kill()
	s.start()
	s.awaitUnits("192.0.2.8")
	s.wantPassed(1, 1, "/login", "X-Forwarded-For: 192.0.2.1")

	s.wantPassed(20, 20, "/trial", "X-Forwarded-For: 192.0.2.1")
	s.mustReload(strings.ReplaceAll(caddyfile, " shadow", ""))
	s.awaitUnits("192.0.2.9")
	s.wantPassed(1, 1, "/trial", "X-Forwarded-For: 192.0.2.1")
}
