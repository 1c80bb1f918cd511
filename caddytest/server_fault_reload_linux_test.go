package caddytest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// holdings are what a process holds and might forget to give up.
type holdings struct {
	goroutines  int // all of them
	ours        int // those that this module has started
	connections int // to the database, each of which has its log open
	databases   int // how often the database itself is open
	handles     int // of all other kinds
}

// spare is how often the database may be open beside the connections to it. Where
// others have locks on it, SQLite keeps the descriptor of a connection that is closed
// for the next one to use (https://www.sqlite.org/src/file/src/os_unix.c, pUnused), so
// there stay as many as there ever were connections at once: two for the engine of
// each request of [server.keepSending] that outlives its configuration.
const spare = 2 * senders

var (
	goroutineTotal = regexp.MustCompile(`^goroutine profile: total (\d+)`)
	goroutineGroup = regexp.MustCompile(`(?m)^(\d+) @`)
)

// holdings asks a Caddy with no requests under way what it holds.
func (s *server) holdings() (h holdings) {
	s.t.Helper()
	s.client.CloseIdleConnections()
	a, err := s.askAdmin(http.MethodGet, "/debug/pprof/goroutine?debug=1")
	if err != nil || a.status != http.StatusOK {
		s.t.Fatalf("status %d: %v", a.status, err)
	}
	h.goroutines = number(goroutineTotal.FindStringSubmatch(a.body))
	for group := range strings.SplitSeq(a.body, "\n\n") {
		if strings.Contains(group, "caddy-tally/limiter") || strings.Contains(group, "caddy-tally/storage") {
			h.ours += number(goroutineGroup.FindStringSubmatch(group))
		}
	}
	handles, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, handle := range handles {
		target, err := os.Readlink(filepath.Join("/proc", fmt.Sprint(s.cmd.Process.Pid), "fd", handle.Name()))
		if err != nil {
			continue // it was closed meanwhile
		}
		switch filepath.Base(target) {
		case "tally.db":
			h.databases++
		case "tally.db-wal":
			h.connections++
		default:
			h.handles++
		}
	}
	return h
}

// number returns what a regular expression with one group has found.
func number(found []string) int {
	n, _ := strconv.Atoi(found[len(found)-1])
	return n
}

// wantHoldings waits until a Caddy without requests holds what it held before, or less.
func (s *server) wantHoldings(before holdings) {
	s.t.Helper()
	if before.ours == 0 || before.connections == 0 {
		s.t.Fatalf("before, there was %+v", before)
	}
	now := holdings{}
	defer func() {
		if s.t.Failed() {
			s.t.Logf("it holds %+v, before %+v", now, before)
		}
	}()
	waitFor(s.t, "what was held to be given up", func() bool {
		now = s.holdings()
		return now.ours == before.ours && now.connections <= before.connections && now.databases <= before.databases+spare &&
			now.goroutines <= before.goroutines && now.handles <= before.handles
	})
}

func TestReloadsHoldOnToNothing(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	conf := func(i int) string {
		return strings.NewReplacer("store_timeout 1m", fmt.Sprintf("store_timeout %ds", 60+i),
			"skip_install_trust", "skip_install_trust\nlog {\nexclude admin.api\n}",
			"dial_timeout 1m", "dial_timeout 1m\nkeepalive off").Replace(limitedProxy("1000000/300d"))
	}
	for _, c := range []struct {
		name    string
		reloads int
		once    func(s *server, i int)
	}{
		{"same", proof.Times(5, 100), func(s *server, i int) { s.mustReload(conf(0)) }},
		{"other settings", proof.Times(5, 50), func(s *server, i int) { s.mustReload(conf(i)) }},
		{"rejected", proof.Times(5, 50), func(s *server, i int) {
			if err := s.reload(onBusyPort(s.t, conf(0))); err == nil {
				s.t.Fatal("a config that can't start is accepted")
			}
		}},
		{"looked at", proof.Times(2, 5), func(s *server, i int) {
			if out, err := s.run("validate", "--config", s.config); err != nil {
				s.t.Fatalf("%v: %s", err, out)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startCaddy(t, conf(0), b.env())
			b.hits.Store(0)
			s.wantPassed(5, 5, "/")
			c.once(s, 1) // Caddy makes some things when it first reloads
			c.once(s, 2)
			before, passed := s.holdings(), b.hits.Load()
			stop := s.keepSending()
			for i := range c.reloads {
				c.once(s, i+1)
			}
			waitFor(t, "requests to pass", func() bool { return b.hits.Load() > passed+100 })
			stop()
			s.wantHoldings(before)
			s.stop()
			if charged, passed := s.charged(), b.hits.Load(); charged < passed { // some may be charged and cut off
				t.Errorf("%d units are charged, %d requests have passed", charged, passed)
			}
		})
	}
}
