package caddytest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/terminal"
)

// bashCompletion is what Debian's package loads into each shell.
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// The Tab key of a real bash completes words with colons, in which bash breaks words: names of clients, addresses,
// and what comes behind an address of Caddy. The lines that make it do so are those of the page.
func TestBashCompletesWordsWithColons(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(bashCompletion); err != nil {
		t.Skip("bash-completion is missing")
	}
	lines := regexp.MustCompile("(?s)For completion of .*?```sh\n(.*?)```").FindStringSubmatch(readSample(t, "../docs/operators.md"))
	if lines == nil {
		t.Fatal("the page doesn't say how to get completion in bash")
	}
	s := startCaddy(t, options("rate_limit {\nstore_timeout 10s\n}"+trusting)+site(`
		rate_limit {
			zone names {
				match header X-Name *
				per key {http.request.header.X-Name}
				limit 1/1h
			}
			zone addresses {
				match not header X-Name *
				limit 1/1h
			}
		}
		respond hello`))
	for _, key := range []string{"alice", "bob:site", "bob:work"} {
		s.wantPassed(1, 2, "/", "X-Name: "+key)
	}
	s.wantPassed(1, 2, "/", "X-Forwarded-For: 2001:db8::7")
	cmd := exec.Command("bash", "--norc", "--noprofile", "-i")
	cmd.Dir, cmd.Env = s.dir, append(s.inPath(t), "PS1=> ", "TERM=dumb", "INPUTRC=/dev/null")
	d := terminal.Start(t, cmd, 250, 50)
	d.Type("source " + bashCompletion + "\r" + strings.ReplaceAll(lines[1], "\n", "\r") + "echo re''ady\r")
	d.Await(t, "\nready")
	for typed, want := range map[string]string{
		"caddy rate-limit --address " + s.admin + " explain key:al":     "key:alice",
		"caddy rate-limit --address=" + s.admin + " explain key:al":     "key:alice",
		"caddy rate-limit explain -a " + s.admin + " key:bob:w":         "key:bob:work",
		"caddy rate-limit ban --address " + s.admin + " 2001:db8":       "2001:db8::/64",
		"caddy rate-limit raise --address " + s.admin + " 2x key:bob:s": "key:bob:site",
		"caddy rate-limit top --address " + s.admin + " addr":           "addresses",
		"caddy rate-limit --address " + s.admin + " expl":               "explain",
	} {
		line := typed[:strings.LastIndex(typed, " ")+1] + want
		d.Type("\x15" + typed + "\t#\r") // what is typed before is removed, and # ends the word that was completed
		d.Await(t, "> "+line+" #\n")
	}
}
