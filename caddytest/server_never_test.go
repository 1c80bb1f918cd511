package caddytest

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A library repeats a request that was answered with 429. One that costs more than its limit never
// passes, so it is answered with 403, and everything that tells of it agrees.
func TestCostAboveTheLimitIsAnsweredWith403(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rate_limit.log")
	s := startCaddy(t, strings.Replace(logged(file, "", ""), "limit 1/1h", "limit 10/1h\ncost {http.request.header.X-Batch}", 1))
	if a := s.get("/", "X-Batch: 11"); a.status != http.StatusForbidden || a.header.Get("Retry-After") != "" || a.header.Get("RateLimit") != "" {
		t.Errorf("status %d, fields %v", a.status, a.header)
	}
	a := s.get("/", "X-Batch: 11", "Accept: application/problem+json")
	var problem struct{ Status int }
	if err := json.Unmarshal([]byte(a.body), &problem); err != nil || a.status != http.StatusForbidden || problem.Status != http.StatusForbidden {
		t.Errorf("status %d, problem %+v, %v", a.status, problem, err)
	}
	out, err := s.run("rate-limit", "explain", "203.0.113.9", "--url", "http://127.0.0.1:"+s.port+"/", "--header", "X-Batch: 11", "--config", "Caddyfile", "--json")
	if err != nil || !strings.Contains(out, `"status": 403`) || !strings.Contains(out, "it costs 11, and the limit is 10") {
		t.Errorf("explained as %s, %v", out, err)
	}
	s.wantPassed(1, 1, "/", "X-Batch: 10")
	if a := s.get("/", "X-Batch: 1"); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("a cost that the limit has room for: status %d, fields %v", a.status, a.header)
	}
	a = s.get("/export", "X-Batch: 1", "Accept: application/problem+json")
	_, id, _ := strings.Cut(a.body, "urn:caddy-tally:")
	s.wantCommand(t, 0, []string{"explain", id[:5] + " " + strings.ToUpper(id[5:10])}, "GET /export: it cost 1, 0 were left")
	s.stop()
	for _, line := range decisions(t, file) {
		if left, known := line["remaining"]; line["outcome"] == "too_costly" && (known || line["cost"] != 11.0) {
			t.Errorf("the line of a cost of 11 has the cost %v and %v left", line["cost"], left)
		}
		want := map[any]float64{"allowed": 0, "too_costly": 403, "over_limit": 429, "blocked": 429}[line["outcome"]]
		if got, _ := line["status"].(float64); got != want {
			t.Errorf("the line of the outcome %v has the status %v, want %v", line["outcome"], got, want)
		}
	}
}
