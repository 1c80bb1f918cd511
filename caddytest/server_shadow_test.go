package caddytest

import (
	"net/http"
	"strings"
	"testing"
)

// An operator tries a limit as docs/shadow.md says: it refuses nothing and shows what it would,
// over a kill as well, and refuses with the counts that it has when the word is taken away.
func TestShadowIsTriedAndSwitchedOn(t *testing.T) {
	t.Parallel()
	example := readSample(t, "../examples/shadow.Caddyfile")
	_, body, _ := strings.Cut(example, ":8080 {")
	conf := options(patient) + "http://:{$PORT} {" + strings.NewReplacer("5/1m", "5/1h", "00/1m", "00/1h").Replace(body)
	enforced := strings.Replace(conf, "\t\t\tshadow\n", "", 1)
	if enforced == conf || strings.Count(conf, "/1h") != 3 {
		t.Fatalf("the example is not what the test expects:\n%s", example)
	}
	s := startCaddy(t, conf)
	try := func(status int, would string) {
		t.Helper()
		a := s.send(http.MethodPost, "/login")
		_, says, _ := strings.Cut(strings.TrimRight(a.body, "\n"), "refused by:")
		if a.status != status || status == http.StatusOK && strings.TrimSpace(says) != would {
			t.Errorf("answered %d %q, want %d and %q", a.status, a.body, status, would)
		}
		if policy := a.header.Get("RateLimit-Policy"); status == http.StatusOK && policy != `"site";q=600;w=3600` {
			t.Errorf("RateLimit-Policy is %q, want only the limit that is enforced", policy)
		}
	}
	for n := range 8 {
		try(http.StatusOK, map[bool]string{true: "login"}[n >= 5])
	}
	s.wantCommand(t, 0, []string{"zones"}, "login (shadow)", "site-300/1h (shadow)", "WOULD REFUSE")
	s.wantCommand(t, 0, []string{"status"}, "In shadow, so that nothing is refused: login.")
	s.wantCommand(t, 0, []string{"top", "login", "--by", "refused"}, "login  5/1h (shadow) ", "127.0.0.1")
	s.wantCommand(t, 1, []string{"blocked"}, "Nobody is over a limit.")
	s.wantCommand(t, 0, []string{"explain", "127.0.0.1"}, "Next request: passes; in shadow, it would be refused by limit login of zone login", "would pass in")
	s.wantCommand(t, 0, []string{"explain", "127.0.0.1", "--url", "POST http://127.0.0.1:" + s.port + "/login"}, "Next request: passes; in shadow, it would be refused by limit login of zone login")
	s.kill()
	s.start()
	try(http.StatusOK, "login")
	s.mustReload(enforced)
	try(http.StatusTooManyRequests, "")
	s.mustReload(conf)
	try(http.StatusOK, "login")
	s.stop()
	// The three before the kill are in the history if that was written in time.
	if past, _ := s.pastOf("login", "login"); past.WouldRefuse != 2 && past.WouldRefuse != 5 || past.Refused != 1 || past.Allowed > 10 {
		t.Errorf("the history has %+v, want 2 that would be refused and 1 that was", past)
	}
	if past, _ := s.pastOf("login", ""); past.WouldRefuse != 2 && past.WouldRefuse != 5 || past.Refused != 1 {
		t.Errorf("the history of the zone has %+v, want 2 that would be refused and 1 that was", past)
	}
}
