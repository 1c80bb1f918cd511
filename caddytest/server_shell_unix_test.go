//go:build unix

package caddytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// hostileKeys are keys that a shell, a terminal or the parser of targets could take for more than a
// text. Those that name a command touch the file "ran".
var hostileKeys = []string{
	"alice", "192.0.2.1", "0.0.0.0/0", "$(touch${IFS}ran)", "$(touch ran) x", "`touch ran`", `"; touch ran; "`, "'; touch ran #", "';touch${IFS}ran;'", "(touch ran)", "x;touch${IFS}ran",
	"<(touch ran)", "${x:=$(touch${IFS}ran)}", "| touch ran", "& touch ran &", `\$(touch ran)`, "$(touch ran)'$(touch ran)'\"$(touch ran)\"",
	"-x", "--force", "--help", `"alice"`, `'alice'`, `"alice`, `\`, `a\nb`, `a\\`, "!!", "!1", "%PATH%", "*", "~", "{a,b}", "#", "=cmd()", "+1", "@x", "a\tb", "a  b",
	"key:x", "tag:123456", "ref:x", "api-key:acme", "session:1f2e3d4c5b6a7980", "address:192.0.2.1", "2001:db8::1", "urn:x:y", strings.Repeat("0a1B", 16),
	"a\xff", "\xc2\x9b2J", "é", "e\u0301", "\u202eabc", "\u200b", "日本", strings.Repeat("'", 60), strings.Repeat("y", 5000) + "$(touch ran)",
}

// shells run a script, and get the words of a line.
var shells = map[string]string{
	"sh":   `printf '%%s\n' %s`,
	"bash": `set -o history -o histexpand; printf '%%s\n' %s`,
	"zsh":  `printf '%%s\n' %s`,
	"fish": `printf '%%s\n' %s`,
}

// completions run the completion script of a shell as its Tab key does, with the words of LINE.
var completions = map[string]string{
	"bash": `source <(caddy completion bash)
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
COMP_WORDS=(LINE… ''); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMPREPLY=(); __start_caddy; printf '%s\n' "${COMPREPLY[@]}"`,
	"zsh": `compdef() { :; }; _describe() { print -rl -- "${completions[@]}"; }
source <(caddy completion zsh); words=(LINE… ''); CURRENT=${#words}; _caddy`,
	"fish": `caddy completion fish | source; complete -C "$LINE "`,
}

// keyInTable finds the client in a line of `top`, behind its tag.
var keyInTable = regexp.MustCompile(`(?m)^names +\S+ +([0-9a-f]{6}) +('[^']*'|\S+) +\d`)

// namesCounted counts by a name that clients choose.
var namesCounted = options("rate_limit {\nstore_timeout 10s\n}") + site(`
		rate_limit {
			zone names {
				per key {http.request.header.X-Name}
				limit 1/1h
			}
		}
		respond hello`)

// Text that clients choose reaches the shell of an operator who completes a command or pastes from a
// list: it runs nothing, and names the client that it is the key of.
func TestClientsTextReachesNoShell(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, namesCounted)
	for _, key := range hostileKeys {
		s.wantPassed(1, 2, "/", "X-Name: "+key)
	}
	list := filepath.Join(s.dir, "list")
	banned := operator.Target{Kind: operator.KeyText, Value: "$(touch${IFS}ran)"}.String()
	if err := os.WriteFile(list, []byte("ban "+banned+"\nban api-key:$(touch${IFS}ran)\n192.0.2.77\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.wantCommand(t, 0, words("bans --import "+list), "Imported 3")

	for _, list := range []string{"top -n 1000", "blocked -n 1000"} {
		out, _, _ := s.rateLimit(words(list)...)
		pasted := make(map[string]string)
		for _, row := range keyInTable.FindAllStringSubmatch(out, -1) {
			pasted[row[1]] = row[2]
		}
		if len(pasted) != len(hostileKeys) {
			t.Fatalf("%s has %d of %d clients:\n%s", list, len(pasted), len(hostileKeys), out)
		}
		s.wantPastedSafely(t, pasted)
	}
	s.wantCommand(t, 0, words("refusals"), `'key:"\x24(touch\x24{IFS}ran)"'`, "key:192.0.2.0/24", "key:0.0.0.0/0")
	for shell, script := range completions {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("there is no %s: its completion is not tested", shell)
			continue
		}
		for _, line := range []string{
			"ban", "explain", "unban", "top",
			`ban 'key:"\x24(touch ran)"' --reason`, // pasted, and then completed
		} {
			if shell != "bash" && len(line) > len("ban") && !strings.Contains(line, " ") && !proof.IsOn() {
				continue // what is offered there doesn't depend on the shell
			}
			typed := "caddy rate-limit --address " + s.admin + " " + line
			offered := s.shell(t, shell, strings.ReplaceAll(script, "LINE…", typed), "LINE="+typed)
			if shell == "zsh" {
				offered = strings.ReplaceAll(offered, `\:`, ":") // as its function for descriptions has it
			}
			for word := range strings.Lines(offered) {
				if word = strings.TrimSpace(word); word != "" && !operator.IsWord(word) {
					t.Errorf("%s offers %q after %s", shell, word, line)
				}
			}
			if has := map[string]string{"ban": "key:alice", "explain": "tag:", "unban": "192.0.2.77", "top": "names"}[line]; !strings.Contains(offered, has) {
				t.Errorf("%s offers after %s\n%s\nwant %s", shell, line, offered, has)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(s.dir, "ran")); err == nil {
		t.Error("a client's text was run")
	}
}

// wantPastedSafely requires that the words of a list, by tag, mean themselves in every shell, and name
// the client with the tag when a command reads them.
func (s *server) wantPastedSafely(t *testing.T, pasted map[string]string) {
	t.Helper()
	var line, tags []string
	for tag, word := range pasted {
		line, tags = append(line, word), append(tags, tag)
	}
	read := make(map[string][]string)
	for shell, script := range shells {
		read[shell] = strings.Split(strings.TrimSuffix(s.shell(t, shell, fmt.Sprintf(script, strings.Join(line, " "))), "\n"), "\n")
		if len(read[shell]) != 1 && !slices.Equal(read[shell], read["sh"]) && read["sh"] != nil {
			t.Errorf("%s reads %q, sh %q", shell, read[shell], read["sh"])
		}
	}
	var known int
	for i, word := range read["sh"] {
		if strings.HasPrefix(word, "sha256:") {
			word = "tag:" + tags[i] // its TAG is in the list
		}
		out, errs, _ := s.rateLimit("explain", "--json", word)
		var explanation operator.Explanation
		if err := json.Unmarshal([]byte(out), &explanation); err != nil || explanation.Tag != tags[i] || explanation.Next.Outcome == "allowed" {
			t.Errorf("%s is read as %s: %s%s", line[i], explanation.Client, out, errs)
		}
		if _, err := operator.ParseTarget(explanation.Client); err == nil {
			known++
		}
	}
	if known != len(pasted) {
		t.Errorf("%d of %d clients have a name", known, len(pasted))
	}
}

// shell runs a script of a shell in which caddy is the server's, and returns what it prints. It returns
// "" without the shell.
func (s *server) shell(t *testing.T, name, script string, env ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Logf("there is no %s", name)
		return ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, "-c", script)
	errs := new(bytes.Buffer)
	cmd.Dir, cmd.Stderr = s.dir, errs
	cmd.Env = append(s.inPath(t), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Logf("%s: %v: %s", name, err, errs)
	}
	return string(out)
}

// inPath returns an environment in which caddy is the server's.
func (s *server) inPath(t *testing.T) []string {
	t.Helper()
	like := s.command()
	bin := filepath.Join(s.dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	caddy := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", like.Path) // a link would run the tests: its name is another
	if err := os.WriteFile(filepath.Join(bin, "caddy"), []byte(caddy), 0o700); err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(like.Env), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+s.dir)
}

// A client's text isn't what it looks like: an address or a network in a key that clients write
// themselves belongs to no address.
func TestKeysThatLookLikeAddresses(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("rate_limit {\nstore_timeout 10s\n}"+trusting)+site(`
		rate_limit {
			zone names {
				match /names
				per key {http.request.header.X-Name}
				limit 1/1h
			}
			zone addresses {
				match /addresses
				per key {client_ip}
				limit 2/1h
			}
			zone ip {
				match /ip
				limit 3/1h
			}
		}
		respond hello`))
	const visitor = "198.51.100.7"
	from := "X-Forwarded-For: " + visitor
	written := []string{"0.0.0.0/0", "::/0", "198.51.100.0/24", visitor, "::ffff:" + visitor, "address:" + visitor}
	for _, key := range written {
		s.wantPassed(1, 2, "/names", "X-Name: "+key, "X-Forwarded-For: 203.0.113.1")
	}
	s.wantPassed(1, 1, "/ip", from)
	s.wantPassed(1, 1, "/addresses", from)

	for _, client := range []string{visitor, "198.51.100.0/24"} {
		explanation, err := s.operator().Explain(t.Context(), operator.Question{Client: client})
		if err != nil || explanation.Next.Outcome != "allowed" {
			t.Errorf("%s: %+v, %v", client, explanation.Next, err)
		}
		counted := make(map[string]int64)
		for _, l := range explanation.Limits {
			counted[l.Zone] = l.Used
		}
		if counted["names"] != 0 || counted["ip"] != 1 || client == visitor && counted["addresses"] != 1 {
			t.Errorf("%s is counted in %v", client, counted)
		}
	}
	for _, client := range []string{"198.51.100.0/24", "0.0.0.0/0", visitor} {
		s.rateLimit("reset", client)
		s.rateLimit("unban", client)
		s.rateLimit("ban", client, "--force")
		s.rateLimit("unban", client)
	}
	s.wantPassed(3, 4, "/ip", from) // it was reset
	s.wantPassed(2, 3, "/addresses", from)
	for _, key := range written {
		s.wantPassed(0, 1, "/names", "X-Name: "+key, "X-Forwarded-For: 203.0.113.1")
	}
	s.wantCommand(t, 0, words("reset key:0.0.0.0/0"), "Reset 1 limit of key:0.0.0.0/0")
	s.wantPassed(1, 2, "/names", "X-Name: 0.0.0.0/0", "X-Forwarded-For: 203.0.113.1")
}

// A tag also names a client whose key is too long for memory, or that only a rule knows.
func TestTagsOfClientsWithoutAName(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, namesCounted)
	long := strings.Repeat("z", 5000)
	s.wantPassed(1, 2, "/", "X-Name: "+long)
	keys, err := s.operator().Keys(t.Context(), operator.KeysQuery{})
	if err != nil || len(keys) != 1 || keys[0].Client != "" || keys[0].Tag == "" {
		t.Fatalf("got %+v, %v", keys, err)
	}
	tag := "tag:" + keys[0].Tag
	s.wantCommand(t, 0, []string{"explain", tag}, tag, "refused by limit names")
	s.wantCommand(t, 1, []string{"ban", tag}, "too long", "key:TEXT")
	s.wantCommand(t, 0, []string{"reset", tag}, "Reset 1 limit of "+tag)
	s.wantPassed(1, 2, "/", "X-Name: "+long)

	s.wantCommand(t, 0, []string{"ban", "key:$(id)"}, "is banned")
	bans, err := s.operator().Bans(t.Context())
	if err != nil || len(bans) != 1 || bans[0].Tag == "" {
		t.Fatalf("got %+v, %v", bans, err)
	}
	s.wantCommand(t, 1, []string{"unban", "tag:" + bans[0].Tag + "00"}, "memory holds no client")
	s.wantCommand(t, 0, []string{"unban", "tag:" + bans[0].Tag}, "key:$(id) is no longer banned")
}
