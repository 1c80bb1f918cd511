package caddytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// rateLimit runs `caddy rate-limit` against the server, and returns what it prints and its exit
// status. It starts no process, unless a Caddy is tested that isn't this program.
func (s *server) rateLimit(args ...string) (out, errs string, status int) {
	s.t.Helper()
	if os.Getenv("CADDYTEST_BINARY") != "" {
		return s.rateLimitProcess(args...)
	}
	stdout, stderr := new(bytes.Buffer), new(bytes.Buffer)
	if err := s.rateLimitCommand(stdout, stderr, args...).ExecuteContext(s.t.Context()); err != nil {
		status = caddy.ExitCodeFailedStartup
	}
	return stdout.String(), stderr.String(), status
}

// rateLimitCommand returns the command `caddy rate-limit` as Caddy builds it.
func (s *server) rateLimitCommand(out, errs io.Writer, args ...string) *cobra.Command {
	command := caddycmd.Commands()["rate-limit"]
	cmd := &cobra.Command{Use: command.Name, Short: command.Short, Long: command.Long}
	command.CobraFunc(cmd)
	root := &cobra.Command{Use: "caddy", SilenceUsage: true}
	root.AddCommand(cmd)
	root.SetOut(out)
	root.SetErr(errs)
	root.SetArgs(append(append([]string{"rate-limit"}, args...), "--address", s.admin))
	return root
}

// rateLimitProcess is rateLimit in a process of its own.
func (s *server) rateLimitProcess(args ...string) (out, errs string, status int) {
	s.t.Helper()
	cmd := s.command(append(append([]string{"rate-limit"}, args...), "--address", s.admin)...)
	stdout, stderr := new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), status
}

// wantCommand runs a command, which must have a status and print some texts.
func (s *server) wantCommand(t *testing.T, status int, args []string, says ...string) {
	t.Helper()
	wantSaid(t, s.rateLimit, status, args, says)
}

// wantProcess is wantCommand with a process of its own.
func (s *server) wantProcess(t *testing.T, status int, args []string, says ...string) {
	t.Helper()
	wantSaid(t, s.rateLimitProcess, status, args, says)
}

func wantSaid(t *testing.T, run func(...string) (out, errs string, status int), status int, args, says []string) {
	t.Helper()
	out, errs, got := run(args...)
	for _, text := range says {
		if !strings.Contains(out+errs, text) {
			t.Errorf("%q prints\n%s%swant %q", args, out, errs, text)
		}
	}
	if got != status {
		t.Errorf("%q: status %d, want %d: %s%s", args, got, status, out, errs)
	}
}

func words(line string) []string { return strings.Fields(line) }

// An operator's night, with commands only.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("rate_limit {\nstore_timeout 10s\nban after 2 violations in 10m for 1h\n}"+trusting)+site(`
		rate_limit {
			zone login {
				match /login
				limit 2/30d
				limit 5/24h name daily
			}
			zone names {
				match /name
				per key {http.request.header.X-Name}
				limit 1/1h
			}
		}
		respond hello`))
	const visitor = "203.0.113.9"
	from := "X-Forwarded-For: " + visitor
	hostile := "a\u009b2J b"
	s.wantPassed(2, 4, "/login", from)
	s.wantPassed(1, 2, "/name", "X-Name: user 17")
	s.wantPassed(1, 2, "/name", "X-Name: "+hostile)

	t.Run("look", func(t *testing.T) {
		s.wantProcess(t, 0, words("status"), "in use", s.database())
		s.wantCommand(t, 0, words("zones"), "login  ip", "2/720h", "names  key {http.request.header.X-Name}")
		s.wantCommand(t, 0, words("top"), visitor, `key:"user 17"`, `key:"a\u009b2J b"`)
		s.wantCommand(t, 0, words("top names --by refused -n 1"), "names")
		s.wantCommand(t, 0, words("blocked login"), visitor, "  in 30d")
		s.wantCommand(t, 1, words("blocked lgoin"), "expected login or names; did you mean login?")
		s.wantCommand(t, 1, words("bans"), "Nobody is banned")
		if out, _, _ := s.rateLimit("export"); strings.Contains(out, `"missing"`) || !strings.Contains(out, visitor) {
			t.Errorf("export prints\n%s", out)
		}
		if out, _, _ := s.rateLimit(words("export --no-clients")...); strings.Contains(out, visitor) || strings.Contains(out, "user 17") {
			t.Errorf("clients are in\n%s", out)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		for _, command := range []string{"status", "zones", "top", "blocked", "bans", "history", "audit", "export", "version", "explain " + visitor} {
			out, errs, _ := s.rateLimit(append(words(command), "--json")...)
			if !json.Valid([]byte(out)) || strings.ContainsRune(out, '\u009b') {
				t.Errorf("%s prints %q, %q", command, out, errs)
			}
		}
	})
	t.Run("explain", func(t *testing.T) {
		s.wantCommand(t, 0, words("explain "+visitor), "login", "daily", "passes in 30d")
		s.wantCommand(t, 0, []string{"explain", visitor, "--url", "GET http://127.0.0.1:" + s.port + "/login"}, "refused", "2/720h")
		s.wantCommand(t, 1, words("explain nobody"), "expected an address such as")
	})
	t.Run("reset", func(t *testing.T) {
		s.wantCommand(t, 1, words("reset 198.51.100.77"), "198.51.100.77")
		s.wantCommand(t, 0, words("reset "+visitor+" --zone login --reason password"), "Reset 2 limits of "+visitor)
		s.wantPassed(2, 3, "/login", from)
		s.wantCommand(t, 0, []string{"reset", "key:user 17"}, `Reset 1 limit of key:"user 17"`)
		s.wantPassed(1, 2, "/name", "X-Name: user 17")
	})
	t.Run("ban and unban", func(t *testing.T) {
		s.wantPassed(1, 1, "/", "X-Forwarded-For: 198.51.100.7")
		s.wantProcess(t, 0, words("ban 198.51.100.0/24 --for 7d --reason scraper"), "198.51.100.0/24 is banned until", "(in 7d)")
		s.wantPassed(0, 1, "/", "X-Forwarded-For: 198.51.100.7")
		s.wantCommand(t, 0, words("bans"), "198.51.100.0/24", "scraper", "rules")
		s.wantCommand(t, 0, words("unban 198.51.100.0/24"), "198.51.100.0/24 is no longer banned")
		s.wantPassed(1, 1, "/", "X-Forwarded-For: 198.51.100.7")
		s.wantProcess(t, 1, words("unban 198.51.100.0/24"), "198.51.100.0/24")
		s.wantCommand(t, 0, []string{"ban", "key:user 17"}, `key:"user 17" is banned until it is lifted`)
		s.wantCommand(t, 0, words("bans"), `key:"user 17"`, "no end")
		s.wantCommand(t, 0, []string{"unban", "key:user 17"}, `key:"user 17" is no longer banned`)
	})
	t.Run("allow and disallow", func(t *testing.T) {
		s.wantPassed(0, 1, "/login", from)
		s.wantCommand(t, 0, words("allow "+visitor), "Every request of "+visitor+" passes until", "(in 2h)")
		s.wantPassed(9, 9, "/login", from)
		s.wantCommand(t, 0, words("disallow "+visitor), "hold for "+visitor+" again")
		s.wantPassed(0, 1, "/login", from)
		s.wantCommand(t, 1, words("disallow "+visitor), visitor)
	})
	t.Run("import", func(t *testing.T) {
		list := filepath.Join(s.dir, "list")
		if err := os.WriteFile(list, []byte("192.0.2.1\nkey:\"user 17\" # twice\nallow 192.0.2.2 until 2999-01-01\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.wantCommand(t, 1, words("bans --import "+list+" --for 1h --reason list"), "list: line 3: got", "only with --allow")
		s.wantPassed(1, 1, "/", "X-Forwarded-For: 192.0.2.1")
		s.wantCommand(t, 0, words("bans --import "+list+" --allow --for 1h --reason list"), "Imported 3 rules, on this machine.")
		s.wantPassed(0, 1, "/", "X-Forwarded-For: 192.0.2.1")
		s.wantCommand(t, 0, words("bans"), "192.0.2.1", `key:"user 17"`, "192.0.2.2", "2999-", "twice")
		s.wantCommand(t, 0, []string{"unban", "key:user 17"}, "no longer banned")
	})
	t.Run("networks that are a large part of the internet", func(t *testing.T) {
		s.wantCommand(t, 1, words("ban 0.0.0.0/0"), "expected a network of at most /8", "--force")
		s.wantCommand(t, 1, words("allow ::/1"), "expected a network of at most /8", "--force")
		for _, line := range []string{"ban 0.0.0.0/0", "allow 192.0.2.9"} {
			if _, err := s.operator().Import(t.Context(), operator.Import{Rules: []string{line}}); err == nil || !strings.Contains(err.Error(), "rule 1: got") {
				t.Errorf("the API takes %s: %v", line, err)
			}
		}
		s.wantPassed(1, 1, "/", "X-Forwarded-For: 192.0.2.77")
		s.wantCommand(t, 0, words("ban 192.0.0.0/7 --force"), "192.0.0.0/7 is banned until it is lifted")
		s.wantPassed(0, 1, "/", "X-Forwarded-For: 192.0.2.77")
		s.wantCommand(t, 0, words("unban 192.0.0.0/7"), "no longer banned")
	})
	t.Run("audit", func(t *testing.T) {
		s.wantCommand(t, 0, words("explain 203.0.113.88"))
		s.wantCommand(t, 1, words("audit --client 203.0.113.88"), "Nobody has done anything to it")
		if _, err := s.operator().Explain(t.Context(), operator.Question{Client: "203.0.113.88", Note: true}); err != nil { // as a dashboard asks
			t.Error(err)
		}
		s.wantCommand(t, 0, words("audit --client 203.0.113.88 --json"), `"action": "explain"`)
		s.wantCommand(t, 0, words("audit --client 198.51.100.7"), "scraper", "network ")
		s.wantCommand(t, 0, words("audit"), "admin", "reset", "ban", "unban", "allow", "disallow", "password")
		if out, _, _ := s.rateLimit("audit"); strings.Contains(out, visitor) || strings.Contains(out, "198.51.100") {
			t.Errorf("the audit has addresses:\n%s", out)
		}
	})
	t.Run("completion", func(t *testing.T) {
		out, err := s.command("__complete", "rate-limit", "--address", s.admin, "top", "").Output()
		if err != nil || !strings.Contains(string(out), "login\nnames\n") {
			t.Errorf("got %s, %v", out, err)
		}
	})
	if logs := s.logs(); strings.Contains(logs, visitor) || strings.Contains(logs, "198.51.100") || strings.Contains(logs, "user 17") {
		t.Error("the log names a client")
	}
}

func TestCommandsWithoutCaddy(t *testing.T) {
	t.Parallel()
	s := newServer(t, config("zone z {\nlimit 1/1h\n}"))
	s.wantProcess(t, 1, words("status"), "no Caddy can be asked at "+s.admin, "start Caddy")
	s.wantProcess(t, 1, words("stats"), `unknown command "stats"`, "did you mean status?")
	s.wantProcess(t, 1, words("ban"), "expected caddy rate-limit ban <client>")
}

// What people name in commands is in no line of the log, whatever they do.
func TestOrdersAreNoPartOfURLs(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 1/1h\n}"))
	if _, err := s.operator().Do(t.Context(), operator.Ban, operator.Command{Client: "203.0.113.77", For: 60, Reason: "secret reason"}); err != nil {
		t.Fatal(err)
	}
	if logs := s.logs(); !strings.Contains(logs, "/rate_limit/ban") || strings.Contains(logs, "203.0.113.77") || strings.Contains(logs, "secret reason") {
		t.Error("the log has no line about the request, or names the client")
	}
}

// A command reads a config file once to find Caddy, and takes the address as a URL, too.
func TestCommandsFindCaddy(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 5/1m\n}"))
	out, err := s.runByConfig("rate-limit", "status")
	if err != nil || !strings.HasPrefix(out, "Caddy has run for") {
		t.Errorf("by a config: %v, %s", err, out)
	}
	if out, err := s.run("rate-limit", "status", "--address", "http://"+s.admin+"/"); err != nil || !strings.Contains(out, "Caddy has run for") {
		t.Errorf("by a URL: %v, %s", err, out)
	}
}

func TestExpiredKeysAreRefused(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("rate_limit {\nstore_timeout 10s\ntier free {\nlimit 100/1h\n}\napi_keys {\nmissing deny\n}\n}")+site("rate_limit {\nzone api {\ntiers\n}\n}\nrespond hello"))
	out, _, status := s.rateLimitProcess(words("key new acme free --expires 1h")...)
	key := "X-Api-Key: " + strings.TrimSpace(out)
	if status != 0 {
		t.Fatal(out)
	}
	waitFor(t, "the key to be in force", func() bool { return s.get("/", key).status == 200 })
	s.wantProcess(t, 0, words("key list"), "acme  free", "until ")
	s.wantProcess(t, 0, words("audit"), "key new ", "api-key:acme")
	file := filepath.Join(filepath.Dir(s.database()), "api_keys")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	line := string(text[:strings.LastIndex(string(text), " until ")])
	ended := line + " until " + time.Now().Add(-time.Minute).UTC().Format(time.RFC3339) + "\n"
	if err := os.WriteFile(file, []byte(ended), 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the key to be refused", func() bool { return s.get("/", key).status == 403 })
	s.wantCommand(t, 0, words("explain api-key:acme"), "is denied: no API key of that name is in force")
	s.wantCommand(t, 0, []string{"explain", "api-key:acme", "--url", "http://localhost:" + s.port + "/"}, "is denied: the API key is not known")
	s.wantProcess(t, 0, words("key list"), "expired ")
}

// The advice about a missing file of API keys ends when the first key is made.
func TestAdviceOfAMissingKeyFileEnds(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("rate_limit {\ntier free {\nlimit 5/1h\n}\napi_keys {\nfile {$DIR}/keys\n}\n}")+site("rate_limit {\nzone z {\ntiers\n}\n}\nrespond hello"))
	advised := func() bool {
		status, err := s.operator().Status(t.Context())
		return err == nil && slices.ContainsFunc(status.Advice, func(a operator.Advice) bool { return strings.Contains(a.Problem, "there is no file") })
	}
	if !advised() {
		t.Fatal("the status doesn't advise to make a key")
	}
	out, errs, status := s.rateLimitProcess("key", "new", "acme", "free", "--file", filepath.Join(s.dir, "keys"))
	if status != 0 {
		t.Fatal(out + errs)
	}
	waitFor(t, "the key to be in force", func() bool { return s.get("/", "X-Api-Key: "+strings.TrimSpace(out)).status == 200 })
	waitFor(t, "the advice to end", func() bool { return !advised() })
}

// A ban of a proxy that the server trusts, or of a network that it is in, has to be forced, also by a list. What is
// said of an API key that doesn't exist is that.
func TestBansOfProxiesAndUnknownKeys(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(`
	rate_limit {
		api_keys {
			file {$DIR}/api_keys
		}
		tier free {
			limit 5/1h
		}
	}
	servers {
		trusted_proxies static 10.9.0.0/16 2001:db8:9::/48 172.18.0.2
	}
	`)+site("rate_limit {\nzone z {\nper api_key\ntiers\n}\n}\nrespond hello"))
	for _, client := range []string{"10.9.0.7", "10.9.0.0/16", "10.8.0.0/13", "2001:db8:9::1", "172.18.0.2", "172.18.0.0/24"} {
		s.wantCommand(t, 1, []string{"ban", client}, "is among the proxies that trusted_proxies names", "--force")
	}
	s.wantCommand(t, 0, []string{"ban", "10.10.0.0/16"}, "10.10.0.0/16 is banned")
	s.wantCommand(t, 0, []string{"allow", "10.9.0.7", "--for", "1h"}, "passes")
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("10.9.3.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.wantCommand(t, 1, []string{"bans", "--import", list}, "is among the proxies that trusted_proxies names")
	s.wantCommand(t, 0, []string{"ban", "10.9.0.7", "--force"}, "10.9.0.7 is banned")
	for _, command := range []string{"explain", "reset", "unban"} {
		s.wantCommand(t, 1, []string{command, "api-key:nobody"}, "there is no API key of that name")
	}
	s.wantCommand(t, 1, []string{"charge", "z", "--client", "api-key:nobody"}, "there is no API key of that name")
}

// A name is told once, a key has the tier of its own or none, and a reference to a count of all clients together names
// nobody, also right after the refusal.
func TestHowClientsAreShown(t *testing.T) {
	t.Parallel()
	s := newServer(t, options("rate_limit {\ntier free {\nlimit 1/1h\n}\ntier paid {\nlimit 1/1h\n}\napi_keys {\nfile {$DIR}/keys\n}\n}")+
		site(`
	rate_limit {
		zone api {
			match /api
			per api_key
			tiers
		}
		zone places {
			match /places
			per api_key
			limit 9 concurrent
		}
		zone crowd {
			match /crowd
			per everyone
			limit 1/1h
		}
	}
	handle_errors {
		respond "{http.rate_limit.exceeded.id}"
	}
	respond hello`))
	key, err := apikeys.New(filepath.Join(s.dir, "keys"), apikeys.Holder{Name: "acme", Tier: "paid"})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	refused := make(map[string]string)
	for _, path := range []string{"/api", "/crowd"} {
		s.get(path, "X-Api-Key: "+key)
		refused[path] = "ref:" + s.get(path, "X-Api-Key: "+key).body
	}
	if out, _, status := s.rateLimitProcess("explain", refused["/api"]); status != 0 || strings.Contains(out, "\n  acme\n") {
		t.Errorf("the name of a key is told twice:\n%s", out)
	}
	if out, _, status := s.rateLimitProcess("top", "api"); status != 0 || strings.Contains(out, "free") || !strings.Contains(out, "api-key:acme") {
		t.Errorf("a key has the tier of others:\n%s", out)
	}
	s.wantCommand(t, 1, []string{"allow", refused["/crowd"]}, "counts clients together")
	s.wantCommand(t, 0, []string{"reset", refused["/crowd"]}, "from zero for all of them")
	s.wantCommand(t, 0, []string{"reset", refused["/api"]}, "Reset")
	s.wantCommand(t, 0, []string{"explain", "api-key:acme"}, "passes; in zone places, unless 9 are under way")
	s.wantCommand(t, 0, []string{"allow", refused["/api"]}, "api-key:acme")
	s.wantCommand(t, 1, []string{"key", "new", "acme", "free", "--file", filepath.Join(s.dir, "keys")}, "caddy rate-limit key tier acme free changes it")
}
