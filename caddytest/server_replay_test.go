package caddytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
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
	const clients, each = 12, 300
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
}
