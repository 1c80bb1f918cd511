package caddytest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
)

const monitor = "192.0.2.7"

// failedAttempts is how often which client fails to sign in. The last one is banned last.
var failedAttempts = []struct {
	from   string
	failed int
}{{person, 2}, {attacker, 9}, {monitor, 20}, {neighbor, 5}}

// The Caddyfile on the page about fail2ban bans whom the jail beside it bans.
func TestMigrationFromFail2ban(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Caddy")
	}
	t.Parallel()
	s := startRecipe(t, recipe{file: "migrate/fail2ban", backends: map[string]standIn{
		"127.0.0.1:3000": {"POST /login": password(200, 401), "GET /": always(200)},
	}})
	for _, w := range []wave{
		send(person, 2, "POST http://example.com:8080/login {n}", 401),
		send(person, 1, "POST http://example.com:8080/login wonderland", 200),
		send(attacker, 5, "POST http://example.com:8080/login {n}", 401),
		send(attacker, 4, "POST http://example.com:8080/login {n}", 429),
		send(monitor, 20, "POST http://example.com:8080/login {n}", 401),
		send(person, 1, "GET http://example.com:8080/", 200),
		send(monitor, 1, "GET http://example.com:8080/", 200),
		send(attacker, 1, "GET http://example.com:8080/", 429),
	} {
		s.send(w)
	}
	var log strings.Builder
	for _, a := range failedAttempts {
		for range a.failed {
			fmt.Fprintf(&log, "%s - - [%s] \"POST /login HTTP/1.1\" 401 0 \"-\" \"curl\"\n", a.from, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
		}
	}
	file := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(file, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{attacker, neighbor}
	if banned := bannedByFail2ban(t, "migrate/fail2ban/jail.d/login.conf", "/var/log/nginx/access.log", file, neighbor); !slices.Equal(banned, want) {
		t.Errorf("fail2ban bans %q, want %q", banned, want)
	}
}

// bannedByFail2ban runs fail2ban with a jail below examples and the filters beside it, which reads a
// log, and returns the addresses that it bans, in order, once the last are among them.
func bannedByFail2ban(t *testing.T, jail, logpath, log string, last ...string) []string {
	t.Helper()
	program, err := exec.LookPath("fail2ban-server")
	if err != nil {
		t.Skip("fail2ban-server is missing, so only ours is tested")
	}
	dir := t.TempDir()
	jail = filepath.Join("../examples", jail)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(jail, "../.."))); err != nil {
		t.Fatal(err)
	}
	banned := filepath.Join(dir, "banned")
	for name, text := range map[string]string{
		filepath.Join(dir, "jail.d", filepath.Base(jail)): replaceInExample(t, readSample(t, jail), logpath, log),
		filepath.Join(dir, "fail2ban.conf"):               "[Definition]\nloglevel = INFO\nlogtarget = STDOUT\nsyslogsocket = auto\nsocket = " + dir + "/sock\npidfile = " + dir + "/pid\ndbfile = None\ndbpurgeage = 1d\ndbmaxmatches = 10\n",
		filepath.Join(dir, "jail.conf"):                   "[DEFAULT]\nbackend = polling\naction = note\n",
		filepath.Join(dir, "action.d", "note.conf"):       "[Definition]\nactionban = echo <ip> >> " + banned + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	server := exec.CommandContext(ctx, program, "-c", dir, "-s", dir+"/sock", "-p", dir+"/pid", "-f", "start")
	server.Stdout = t.Output()
	if err := child.Start(server); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = child.Wait(server) // it was killed
	}()
	var addresses []string
	waitFor(t, fmt.Sprintf("fail2ban to ban %q", last), func() bool {
		text, _ := os.ReadFile(banned)
		addresses = strings.Fields(string(text))
		return !slices.ContainsFunc(last, func(one string) bool { return !slices.Contains(addresses, one) })
	})
	return addresses
}
