package caddytest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// trapped is a config with a trap that bans for an hour, and the store of an option.
func trapped(store string) string {
	return standing(store, "trap ban 1h path /.env\nzone other {\nmatch /other\nper client\nlimit 1/1h\nban after 1 violations in 1h for 2h\n}", "100/1h")
}

// wantBans checks that bans for violations are listed, once each, in all lists, and returns them.
func (s *server) wantBans(t *testing.T, n int) []operator.Rule {
	t.Helper()
	bans, err := s.operator().Bans(t.Context())
	if err != nil || len(bans) != n {
		t.Fatalf("got %d bans %+v, %v, want %d", len(bans), bans, err, n)
	}
	status, err := s.operator().Status(t.Context())
	if err != nil || status.Conduct == nil || status.Conduct.Bans != n || status.Conduct.Missing != "" {
		t.Errorf("status counts %+v, %v, want %d", status.Conduct, err, n)
	}
	return bans
}

// recordOffenses waits until the store has what clients did: a forecast is about that.
func (s *server) recordOffenses(t *testing.T) {
	t.Helper()
	if _, err := s.operator().Explain(t.Context(), operator.Question{Client: "192.0.2.99", URL: "http://127.0.0.1:" + s.port + "/"}); err != nil {
		t.Fatal(err)
	}
}

// Bans for violations are listed and counted after a crash, before their clients come back, by
// references that lift them; and once each when they have come back.
func TestBansAreListedAfterACrash(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, trapped(""))
	s.wantPassed(0, 1, "/.env", from(1))
	s.wantPassed(0, 1, "/.env", from(2))
	s.wantPassed(1, 3, "/other", from(3))
	s.wantBans(t, 3)
	s.recordOffenses(t)
	s.kill()
	s.start()
	var trap, other string
	for _, b := range s.wantBans(t, 3) {
		if b.Action != "ban" || b.By != "conduct" || !strings.HasPrefix(b.Client, "ref:") || b.Since == nil || b.Until == nil ||
			b.Tag != "" || strings.Contains(b.Text, "192.0.2") || time.Until(*b.Since) > 0 {
			t.Errorf("got %+v", b)
		}
		length := b.Until.Sub(*b.Since).Round(time.Minute)
		switch {
		case b.Reason == "trap" && length == time.Hour:
			trap = b.Client
		case b.Reason == "over_limit" && b.Zone == "other" && length == 2*time.Hour:
			other = b.Client
		default:
			t.Errorf("got %+v", b)
		}
	}
	s.wantCommand(t, 0, []string{"status"}, "Banned for violations: 3 clients, the last one ")
	out, _, _ := s.rateLimit("bans")
	if listed := regexp.MustCompile("ban +(ref:[0-9a-z]{64}) .* conduct +other +over_limit").FindStringSubmatch(out); listed == nil {
		t.Errorf("bans prints\n%s", out)
	} else {
		other = listed[1]
	}
	s.wantPassed(0, 1, "/", from(3)) // its client comes back, and is in memory from now on
	found := 0
	for _, b := range s.wantBans(t, 3) {
		if !strings.HasPrefix(b.Client, "ref:") {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d clients in memory are listed, want 1", found)
	}
	s.wantCommand(t, 0, []string{"unban", other}, "is no longer banned")
	s.wantPassed(1, 1, "/", from(3))
	s.wantBans(t, 2)
	s.wantCommand(t, 0, []string{"unban", trap}, "is no longer banned")
	s.wantBans(t, 1)
	s.wantCommand(t, 1, []string{"unban", trap}, "it isn't banned")
	if passed := s.passed(1, "/", from(1)) + s.passed(1, "/", from(2)); passed != 1 {
		t.Errorf("%d of two banned clients pass, want 1", passed)
	}
	wantNoAddress(t, s.database())
}

// wantNoAddress checks that the files of a database have no address of a test's clients.
func wantNoAddress(t *testing.T, path string) {
	t.Helper()
	files, _ := filepath.Glob(path + "*")
	if len(files) == 0 {
		t.Fatalf("no %s", path)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(content), "192.0.2.") || strings.Contains(string(content), "\xc0\x00\x02") {
			t.Errorf("%s has an address, %v", file, err)
		}
	}
}

// Each of two processes on one file lists the bans of the other, and lifts them.
func TestBansOfTwoProcessesAreListed(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, trapped(""))
	other := newServer(t, trapped(""), "XDG_DATA_HOME="+s.data())
	other.start()
	s.wantPassed(0, 1, "/.env", from(1))
	s.recordOffenses(t)
	bans := other.wantBans(t, 1)
	s.wantBans(t, 1)
	other.wantCommand(t, 0, []string{"unban", bans[0].Client}, "is no longer banned")
	other.wantBans(t, 0)
	waitFor(t, "the client to be let in", func() bool { return s.passed(1, "/", from(1)) == 1 })
	s.wantBans(t, 0)
	other.wantPassed(1, 1, "/", from(1))
}

// Bans in a store in memory are listed once, also after a reload.
func TestBansInMemoryAreListed(t *testing.T) {
	t.Parallel()
	config := trapped("store memory")
	s := startCaddy(t, config)
	s.wantPassed(0, 1, "/.env", from(1))
	s.wantBans(t, 1)
	s.mustReload(strings.Replace(config, "100/1h", "99/1h", 1))
	bans := s.wantBans(t, 1)
	s.wantCommand(t, 0, []string{"unban", bans[0].Client}, "is no longer banned")
	s.wantBans(t, 0)
	s.wantPassed(1, 1, "/", from(1))
}

// Bans in a Redis are listed after a crash, too. While it can't be used, nobody is told that there
// are none.
func TestBansOfAStoreThatIsAwayAreNotKnown(t *testing.T) {
	t.Parallel()
	redis := newRedis(t)
	s := startFleet(t, redis, 1, strings.Replace(onRedis("limit 10/1h"), "rate_limit {\nzone", "rate_limit {\ntrap ban 1h path /.env\nzone", 1))[0]
	if a := s.get("/.env", from(1)); a.status != http.StatusTooManyRequests {
		t.Fatalf("the trap answers %d", a.status)
	}
	s.wantBans(t, 1)
	s.recordOffenses(t)
	s.kill()
	s.start()
	bans := s.wantBans(t, 1)
	redis.Must(t, "SAVE")
	redis.Kill()
	s.passed(1, "/", from(2))
	s.awaitDegraded()
	status, err := s.operator().Status(t.Context())
	if err != nil || status.Conduct == nil || status.Conduct.Bans != 0 || !strings.Contains(status.Conduct.Missing, "the store can't be used") {
		t.Errorf("status says %+v, %v", status.Conduct, err)
	}
	s.wantCommand(t, 0, []string{"status"}, "Banned for violations: 0 clients known; those of clients that haven't come since the start aren't: the store can't be used")
	s.wantCommand(t, 1, []string{"bans"}, "aren't: the store can't be used")
	redis.Run(t)
	waitFor(t, "the Redis to be in use again", func() bool { return !s.health().Degraded })
	s.wantCommand(t, 0, []string{"unban", bans[0].Client}, "is no longer banned")
	s.wantBans(t, 0)
}

// A list has a bound, and says when there are more bans: of those in memory, and of those in the
// store.
func TestBansBeyondTheBoundAreSaid(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, trapped(""))
	for i := range operator.MaxItems + 1 {
		s.wantPassed(0, 1, "/.env", fmt.Sprintf("X-Forwarded-For: 10.%d.%d.1", i/250, i%250))
	}
	wantMore := func() {
		t.Helper()
		bans, err := s.operator().Bans(t.Context())
		status, statusErr := s.operator().Status(t.Context())
		if err != nil || len(bans) != operator.MaxItems || statusErr != nil || status.Conduct.Bans != operator.MaxItems || status.Conduct.Missing != "there are more" {
			t.Errorf("got %d bans, %v, and status %+v, %v", len(bans), err, status.Conduct, statusErr)
		}
		s.wantCommand(t, 0, []string{"bans"}, "Banned for violations: 1,000 clients known, the last one ", "; there are more.")
	}
	wantMore()
	s.recordOffenses(t)
	s.kill()
	s.start()
	wantMore()
}
