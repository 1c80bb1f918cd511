package caddytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// health is what the admin endpoint tells of a store.
type health struct {
	Store    string    `json:"store"`
	Path     string    `json:"path"`
	Degraded bool      `json:"degraded"`
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason"`
	Keys     int64     `json:"keys"`
	MaxKeys  int64     `json:"max_keys"`
	Evicted  int64     `json:"evicted_keys"`
	Bytes    int64     `json:"store_bytes"`
	Journal  int64     `json:"journal_bytes"`

	Processes int               `json:"processes"`
	Network   *operator.Network `json:"network"`
	Region    *operator.Region  `json:"region"`

	APIKeys *fileTrouble `json:"api_keys"`
	Rules   *fileTrouble `json:"rules"`
	History *fileTrouble `json:"history"`
	Names   *fileTrouble `json:"names"`
}

// fileTrouble is what is wrong with a file.
type fileTrouble struct {
	File   string    `json:"file"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// healths asks the admin endpoint how the stores are.
func (s *server) healths() (all []health) {
	s.t.Helper()
	a, err := s.askAdmin(http.MethodGet, "/rate_limit/")
	if err != nil || a.status != http.StatusOK {
		s.t.Fatalf("status %d: %s: %v", a.status, a.body, err)
	}
	decoder := json.NewDecoder(strings.NewReader(a.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		s.t.Fatalf("%v in %s", err, a.body)
	}
	return all
}

// health asks how the only store is.
func (s *server) health() health {
	s.t.Helper()
	all := s.healths()
	if len(all) != 1 {
		s.t.Fatalf("%d stores, want 1: %+v", len(all), all)
	}
	return all[0]
}

// otherClient is a client that no test has by another name.
func otherClient(n int) string {
	return fmt.Sprintf("X-Forwarded-For: 10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// awaitDegraded sends requests of ever new clients until the store is found to
// be unusable.
func (s *server) awaitDegraded() {
	s.t.Helper()
	n := 0
	waitFor(s.t, "an outage", func() bool {
		n++
		s.passed(1, "/", otherClient(n))
		return s.health().Degraded
	})
}

func (s *server) awaitRecovery() {
	s.t.Helper()
	waitFor(s.t, "the store to be in use", func() bool { return !s.health().Degraded })
}

func TestHealthTellsHowTheStoreIs(t *testing.T) {
	t.Parallel()
	conf := config("zone z {\nlimit 2/1h\n}")
	s := startCaddy(t, conf)
	s.wantPassed(2, 3, "/")
	h := s.health()
	if h.Store != "sqlite" || h.Path != s.database() || h.Degraded || !h.Since.IsZero() || h.Reason != "" || h.Keys != 1 || h.MaxKeys != 1_000_000 || h.Bytes == 0 {
		t.Errorf("health is %+v", h)
	}
	before := time.Now().Add(-2 * time.Second) // it is told in whole seconds
	aside := s.database() + ".aside"
	if err := os.Rename(s.database(), aside); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.database(), []byte("Dear diary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.awaitDegraded()
	h = s.health()
	if h.Path != s.database() || h.Since.Before(before) || h.Since.After(time.Now()) || !strings.Contains(h.Reason, s.database()) {
		t.Errorf("health in an outage is %+v", h)
	}
	if metrics, err := s.metrics(); err != nil || !strings.Contains(metrics, "\ncaddy_rate_limit_degraded 1\n") {
		t.Errorf("metrics don't tell of the outage: %v", err)
	}
	if err := os.Rename(aside, s.database()); err != nil {
		t.Fatal(err)
	}
	s.awaitRecovery()
	if h = s.health(); h.Reason != "" || !h.Since.IsZero() {
		t.Errorf("health after the outage is %+v", h)
	}
	s.mustReload(options("") + site("respond hello"))
	if all := s.healths(); len(all) != 0 {
		t.Errorf("without a zone there are stores: %+v", all)
	}
}

func TestHealthIsOnlyTold(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 2/1h\n}"))
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		if a, err := s.askAdmin(method, "/rate_limit/"); err != nil || a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d, want 405: %v", method, a.status, err)
		}
	}
}
