package caddytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/replay"
)

// replayed runs `caddy rate-limit replay --json` with the server's config, and returns its
// report and its exit status.
func (s *server) replayed(args ...string) (report replay.Report, status int) {
	s.t.Helper()
	cmd := s.command(append([]string{"rate-limit", "replay", "--config", s.config, "--json"}, args...)...)
	errs := new(bytes.Buffer)
	cmd.Stderr = errs
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		s.t.Fatalf("%v: %s%s", err, out, errs)
	}
	return report, status
}

// A log that a Caddy with this module has written, replayed with its config, gives the verdicts
// again that the requests got. Each client sends one request after another: of requests of one
// client that come at a time, a log doesn't say which was decided about first.
func TestReplayGivesTheVerdictsOfTheLog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "access.log")
	s := startCaddy(t, options(patient+trusting)+site(`
		log {
			output file `+file+`
		}
		rate_limit {
			exempt path /health
			zone login {
				match POST /login
				limit 5/1m
				limit 20/1h
			}
			zone tenants {
				match header X-Tenant *
				per key {http.request.header.X-Tenant}
				limit 10/1m
			}
			zone all {
				limit 40/1h burst 50
				limit 70/7d fixed
			}
		}
		respond hello
	`))
	const clients, each = 12, 150
	var sending sync.WaitGroup
	for client := range clients {
		sending.Go(func() {
			for n := range each {
				switch {
				case n%(client+3) == 0:
					s.send("POST", "/login", from(client))
				case n%7 == 0:
					s.get("/health", from(client))
				case n%3 == 0:
					s.get("/page?n=1", from(client), "X-Tenant: "+string(rune('a'+client)))
				default:
					s.get("/page?n=2", from(client))
				}
			}
		})
	}
	sending.Wait()
	s.stop()
	report, status := s.replayed(file)
	own := report.Own
	if status != 0 || own == nil || own.Requests != clients*each || own.Log == 0 {
		t.Fatalf("status %d, report %+v, own verdicts %+v", status, report, own)
	}
	t.Logf("refused by the log %d, by the replay %d; only by the log %d, only by the replay %d: %.4f are the same", own.Log, report.Refused, own.OnlyLog, own.OnlyReplay, own.Share)
	if own.Share < 0.999 {
		t.Errorf("%.4f of the verdicts are those of the log, want 0.999: %+v", own.Share, own)
	}
	for _, limit := range []string{"login", "tenants", "all"} {
		if !slices.ContainsFunc(report.Limits, func(l replay.LimitReport) bool { return l.Limit == limit && l.Refused > 0 }) {
			t.Errorf("limit %s refuses nothing, which tests nothing", limit)
		}
	}
	s.wantReplay(t, 0, []string{file}, "would be refused", "Zone tenants")
	page := filepath.Join(t.TempDir(), "report.html")
	s.wantReplay(t, 0, []string{"--suggest", "--zone", "login", "--html", page, file}, "Zone login", "192.0.2.0/24")
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "These limits would have refused") || strings.Contains(string(text), "192.0.2.1<") {
		t.Errorf("the page is %.200s, %v", text, err)
	}
}

// wantReplay runs a replay with the server's config, which must have a status and print some
// texts.
func (s *server) wantReplay(t *testing.T, status int, args []string, says ...string) {
	t.Helper()
	cmd := s.command(append([]string{"rate-limit", "replay", "--config", s.config}, args...)...)
	out, _ := cmd.CombinedOutput()
	for _, text := range says {
		if !strings.Contains(string(out), text) {
			t.Errorf("%q prints\n%swant %q", args, out, text)
		}
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("%q: status %d, want %d: %s", args, got, status, out)
	}
}

// Mistakes are told with what is expected, before anything is read. A config's database and logs
// are neither opened nor made, and of a log of another server is said what it lacks.
func TestReplayWithoutCaddy(t *testing.T) {
	t.Parallel()
	s := newServer(t, options("rate_limit {\nstore sqlite {$DIR}/tally.db\n}\nlog {\noutput file {$DIR}/caddy.log\n}")+
		"example.com {\ntls {$DIR}/none.pem {$DIR}/none.key\nrate_limit {\nzone all {\nlimit 2/1m\n}\n}\n}\n")
	log := filepath.Join(t.TempDir(), "access.log")
	line := `10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"` + "\n"
	if err := os.WriteFile(log, []byte(strings.Repeat(line, 3)+"\x1b[2J\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.wantReplay(t, 0, []string{"--site", "example.com", log}, "would be refused     1  33.3 %", "10.0.0.0/24", "whole seconds", "1 line could not be read", "access.log, line 4: ", `\x1b[2J`)
	s.wantReplay(t, 0, []string{log}, "no limit applies     3", "name it with --site")
	s.wantReplay(t, 1, nil, "got no log")
	s.wantReplay(t, 1, []string{log + "none"}, "no such file")
	s.wantReplay(t, 1, []string{"--format", "nonsense", log}, "expected caddy")
	s.wantReplay(t, 1, []string{"--from", "nonsense", log}, "--from:")
	s.wantReplay(t, 1, []string{"--from", "1h", "--to", "2h", log}, "expected the earlier time first")
	for _, name := range []string{"tally.db", "caddy.log", "data"} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
}
