package caddytest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// The addresses of a block list are banned, over reloads, which fetch nothing, and over a restart
// while its server is away. What an operator writes comes first, however wide.
func TestBlockList(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		io.WriteString(w, "# a list\n192.0.2.1\n192.0.2.16/30 # scrapers\n10.0.0.0/8\n127.0.0.1\nno address\n")
	}))
	defer origin.Close()
	lists := func(more string) string {
		return strings.Replace(config("exempt path /health\n"+more+"\nzone z {\nlimit 100/1h\n}"), "rate_limit {",
			"rate_limit {\nblock_list "+origin.URL+"/list?key=hidden\nblock_list "+"{$LIST} ban 1h", 1)
	}
	s := newServer(t, lists(""))
	file := s.dir + "/blocked"
	s.env = append(s.env, "LIST="+file)
	if err := os.WriteFile(file, []byte("192.0.2.30\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	waitFor(t, "the list to be in force", func() bool { return s.get("/", from(1)).status == http.StatusTooManyRequests })
	check := func() {
		t.Helper()
		s.wantBannedByOperator(false, "/", from(1))
		s.wantBannedByOperator(false, "/", from(17))
		s.wantBannedByOperator(true, "/", from(30))
		s.wantPassed(1, 1, "/", from(15))
		s.wantPassed(1, 1, "/", "X-Forwarded-For: 10.1.2.3")
		s.wantPassed(1, 1, "/")
		s.wantPassed(1, 1, "/health", from(1))
	}
	check()
	explained, err := s.operator().Explain(context.Background(), operator.Question{Client: "192.0.2.17"})
	if rule := explained.Rule; err != nil || rule == nil || rule.By != "list" || !strings.HasPrefix(rule.Reason, "block list 127.0.0.1:") {
		t.Errorf("explained as %+v, %v", explained, err)
	}
	s.setRules("allow 192.0.2.0/24")
	s.wantPassed(1, 1, "/", from(1))
	s.setRules("ban 192.0.2.200")
	s.wantBannedByOperator(false, "/", from(200))
	s.mustReload(lists("headers off"))
	check()
	if n := fetched.Load(); n != 1 {
		t.Errorf("the list was fetched %d times", n)
	}
	broken := s.logLines("some lines of the block list are no addresses; the others are in force")
	if len(broken) != 1 || !strings.Contains(broken[0]["error"].(string), "line 6") || strings.Contains(s.logs(), "hidden\"") {
		t.Errorf("the log says %v", broken)
	}
	s.wantCommand(t, 0, []string{"status"}, "Block list 127.0.0.1:", ": 2 bans, read ", "Block list blocked: 1 ban, read ")
	origin.Close()
	s.stop()
	s.start()
	check()
}

// A list that another program has broken keeps no Caddy from starting after a reboot: it is left out,
// which the log, status and metrics say, until it is right. Commands and reloads refuse it.
func TestBrokenBlockListStopsNoStart(t *testing.T) {
	t.Parallel()
	listed := strings.Replace(config("zone z {\nlimit 100/1h\n}"), "rate_limit {", "rate_limit {\nblock_list {$LIST} every 1s", 1)
	s := newServer(t, listed)
	file := s.dir + "/blocked"
	s.env = append(s.env, "LIST="+file)
	if err := os.WriteFile(file, []byte("<html>\n<p>Sorry!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := s.run("validate", "--config", s.config); err == nil || !strings.Contains(out, "is no list of addresses") {
		t.Errorf("validate says %v and %s", err, out)
	}
	s.start()
	s.wantPassed(1, 1, "/", from(1))
	if lines := s.logLines("the block list can't be used; Caddy starts without it, and reads it again until it can"); len(lines) != 1 || lines[0]["level"] != "error" {
		t.Errorf("the log says %v", lines)
	}
	s.wantCommand(t, 0, []string{"status"}, "can't be read, and bans nobody: ", "is no list of addresses")
	waitFor(t, "metrics to say so", func() bool { return strings.Contains(s.metricLines(), "caddy_rate_limit_failing_block_lists 1") })
	if err := s.reload(listed + "\n# another"); err == nil || !strings.Contains(err.Error(), "is no list of addresses") {
		t.Errorf("a reload says %v", err)
	}
	if err := os.WriteFile(file, []byte("192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the list to be in force", func() bool { return s.get("/", from(1)).status == http.StatusTooManyRequests })
	s.mustReload(listed + "\n# another") // Caddy's metrics are those of the config that was refused
	waitFor(t, "metrics to say so", func() bool { return strings.Contains(s.metricLines(), "caddy_rate_limit_failing_block_lists 0") })
}
