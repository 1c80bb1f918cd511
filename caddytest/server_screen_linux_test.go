package caddytest

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/terminal"
)

// wantLine waits until a terminal shows a line of words, which are regular expressions.
func wantLine(t *testing.T, d *terminal.Terminal, words string) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + strings.Join(strings.Fields(words), ` +`) + `$`)
	d.AwaitThat(t, words, line.MatchString)
}

// The screen of `top --watch` shows what was sent to a real Caddy, over a reload and a restart.
func TestScreenOfARunningCaddy(t *testing.T) {
	t.Parallel()
	const zone = "zone names {\nper key {http.request.header.X-Name}\nlimit 3/1h\n}"
	s := startCaddy(t, config(zone))
	s.wantPassed(3, 5, "/", "X-Name: alice")
	s.wantPassed(1, 1, "/", "X-Name: \u009b2J")
	cmd := s.command("rate-limit", "top", "--watch", "--address", s.admin)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	d := terminal.Start(t, cmd, 100, 24)
	wantLine(t, d, `Let in 0\.0/s refused 0\.0/s banned 0\.0/s`)
	wantLine(t, d, `names 0\.0/s 0\.0/s 4 2`)
	wantLine(t, d, `names 3/1h [0-9a-f]{6} key:alice 3 3 100 2 in .*`)
	wantLine(t, d, `names 3/1h [0-9a-f]{6} 'key:"\\u009b2J"' 1 3 33 0`)
	wantLine(t, d, `.* ago 2 names names [0-9a-f]{6} key:alice blocked`)
	s.wantPassed(3, 4, "/", "X-Name: bob")
	wantLine(t, d, `names .* .* 7 3`)
	wantLine(t, d, `names 3/1h [0-9a-f]{6} key:bob 3 3 100 1 in .*`)

	loaded := make(chan error, 1)
	go func() { loaded <- s.load(config(zone + "\nzone other {\nlimit 100/1h\n}")) }()
	d.Await(t, "Connecting again: Caddy loads another config") // for a second
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	wantLine(t, d, `other 0\.0/s 0\.0/s 0 0`)
	wantLine(t, d, `names .* .* 7 3`)

	s.stop()
	d.Await(t, "Connecting again: no Caddy can be asked at "+s.admin)
	d.Await(t, "key:bob") // as it was
	s.start()
	d.Await(t, "Nobody has been counted.")
	s.wantPassed(0, 1, "/", "X-Name: alice")
	wantLine(t, d, `names .* .* 0 1`)
	wantLine(t, d, `names 3/1h [0-9a-f]{6} key:alice 3 3 100 1 in .*`)

	d.Signal(syscall.SIGTERM)
	if err := d.WantRestored(t); err != nil {
		t.Errorf("the screen ends with %v", err)
	}
}
