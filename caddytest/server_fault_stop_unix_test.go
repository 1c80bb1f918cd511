//go:build unix

package caddytest

import (
	"database/sql"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// graceful is limitedProxy with a grace period.
func graceful(period, limit string) string {
	return strings.Replace(limitedProxy(limit), "skip_install_trust", "skip_install_trust\n\tgrace_period "+period, 1)
}

// charged returns how many units are charged in the database.
func (s *server) charged() (units int64) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+s.database()+"?mode=ro")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT coalesce(sum(used), 0) FROM counters").Scan(&units); err != nil {
		s.t.Fatal(err)
	}
	return units
}

// What is charged after a stop is what has passed, whenever the stop comes.
func TestStopUnderLoadChargesWhatHasPassed(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"sliding", "fixed"} {
		t.Run(algorithm, func(t *testing.T) {
			b := newBackend(t)
			s := startCaddy(t, graceful("1m", "1000000/300d "+algorithm), b.env())
			for life := range proof.Times(3, 5) {
				stop := s.keepSending()
				before := b.hits.Load()
				waitFor(t, "requests to pass", func() bool { return b.hits.Load() > before+20*int64(life) })
				s.terminate()
				stop()
				if charged, passed := s.charged(), b.hits.Load(); charged != passed {
					t.Errorf("life %d: %d units are charged, %d requests have passed", life, charged, passed)
				}
				s.start()
			}
		})
	}
}

// A request that doesn't end keeps nobody from stopping.
func TestStopEndsWithTheGracePeriod(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	b := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	t.Cleanup(func() {
		close(release)
		b.Close()
	})
	s := startCaddy(t, graceful("1s", "10/300d"), "BACKEND="+strings.TrimPrefix(b.URL, "http://"))
	failed := make(chan error, 3)
	for range cap(failed) {
		go func() {
			_, err := s.try(http.MethodGet, "/")
			failed <- err
		}()
	}
	for range cap(failed) {
		<-arrived
	}
	s.terminate()
	for range cap(failed) {
		if err := <-failed; err == nil {
			t.Error("a request was answered by nobody")
		}
	}
	if charged := s.charged(); charged != 3 {
		t.Errorf("%d units are charged for %d requests", charged, cap(failed))
	}
	if lines := s.logLines("the rate limiter could not be closed"); len(lines) > 0 {
		t.Errorf("the log says %v", lines)
	}
}
