package caddytest

import (
	"fmt"
	"strings"
	"testing"
)

// A challenge that nobody solves is told once in the log, and by status from then on, over reloads, too.
func TestChallengeThatNobodySolves(t *testing.T) {
	t.Parallel()
	caddyfile := options("rate_limit {\nstore_timeout 1m\nsession\n}\n"+trusting) +
		site("rate_limit {\nzone pages {\nper client\nlimit 1/1h\nprefix_ceiling 1\non_exceeded challenge\n}\n}\nrespond hello")
	s := startCaddy(t, caddyfile)
	const problem = "challenge: 50 pages with it were shown, and nobody has solved one"
	from := 0
	ask := func(pages int) {
		t.Helper()
		for range pages {
			from++ // a page for each of the clients, whose first request passes
			for range 2 {
				s.get("/", fmt.Sprintf("X-Forwarded-For: 192.0.%d.1", from), "Accept: text/html", "User-Agent: Mozilla/5.0")
			}
		}
	}
	wantTold := func(lines int) {
		t.Helper()
		if n := len(s.logLines(problem)); n != lines {
			t.Errorf("the log says %d times that nobody solves the challenge, want %d", n, lines)
		}
		if out, _, _ := s.rateLimit("status"); strings.Contains(out, problem) != (lines > 0) {
			t.Errorf("want %d lines in the log, and status says\n%s", lines, out)
		}
	}
	s.mustReload(caddyfile) // so that places have the same names as after the next one
	ask(49)
	wantTold(0)
	ask(1)
	wantTold(1)
	ask(10)
	s.mustReload(caddyfile + "# changed\n")
	ask(1)
	wantTold(1)
}
