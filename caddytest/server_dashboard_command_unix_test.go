//go:build unix

package caddytest

import (
	"bufio"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
)

// dashboardCommand starts `caddy rate-limit dashboard`, and returns the address that it
// prints.
func (s *server) dashboardCommand(args ...string) (address string, cmd *exec.Cmd) {
	s.t.Helper()
	cmd = s.command(append([]string{"rate-limit", "dashboard", "--address", s.admin}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := child.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill() }) // an error: it has ended
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
			return lines.Text(), cmd
		}
	}
	s.t.Fatalf("caddy rate-limit dashboard prints no address, and ends: %v", child.Wait(cmd))
	return "", nil
}

// The command shows the running Caddy, to whoever has the address that it prints, until it is
// interrupted.
func TestDashboardCommand(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone login {\nlimit 2/1h\n}"))
	s.wantPassed(2, 3, "/")
	for _, args := range [][]string{nil, {"--read-only"}} {
		address, cmd := s.dashboardCommand(args...)
		jar, _ := cookiejar.New(nil)
		client := &http.Client{Jar: jar}
		r, _ := http.NewRequest(http.MethodGet, address, nil)
		a, err := do(client, r)
		if err != nil || a.status != http.StatusOK || !strings.Contains(a.body, "login") || strings.Contains(a.body, "reads only") != (args != nil) {
			t.Errorf("%v: %v: got %d:\n%s", args, err, a.status, a.body)
		}
		r, _ = http.NewRequest(http.MethodGet, address, nil)
		if a, err := do(new(http.Client), r); err != nil || a.status != http.StatusForbidden {
			t.Errorf("the address once more: %v, got %d, want 403", err, a.status)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(cmd); err != nil {
			t.Errorf("interrupted, it ends with %v", err)
		}
	}
	s.stop()
	if out, err := s.run("rate-limit", "dashboard", "--address", s.admin); err == nil || strings.Contains(out, "http://127.0.0.1") {
		t.Errorf("without a running Caddy: got %v and\n%s", err, out)
	}
}
