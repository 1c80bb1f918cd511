package caddytest

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// Built with the tag tally, this module and one with the names that it has otherwise are in one binary,
// and both limit.
func TestAnotherLimiterBesideIt(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "caddy")
	if out, err := exec.Command("go", "build", "-tags", "tally", "-o", binary, "../internal/testing/bothlimiters").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := newServer(t, options("rate_limit\nmetrics\ntally {\nstore_timeout 1m\n}\n")+site(`
		rate_limit
		tally {
			zone all {
				limit 5/1h
			}
		}
		basic_auth /private {
			somebody $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
		}
		tally_user {
			zone people {
				match path /private
				per key {http.auth.user.id}
				limit 1/1h
			}
		}
		respond hello`))
	s.binary = binary
	s.start()
	for i := range 6 {
		a := s.get("/")
		if want := i < 5; a.isAllowed(t) != want || want && a.header.Get("Other-Limiter") == "" {
			t.Errorf("request %d: got %+v", i, a)
		}
	}
	metrics, err := s.askAdmin(http.MethodGet, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"caddy_tally_requests_total{", "caddy_tally_keys "} {
		if !strings.Contains(metrics.body, want) {
			t.Errorf("the metrics have no %s:\n%s", want, metrics.body)
		}
	}
	if out, err := s.run("rate-limit", "status", "--address", s.admin); err != nil || !strings.Contains(out, "all") {
		t.Errorf("got %v:\n%s", err, out)
	}
}
