package caddytest

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// backend counts the requests that reach it: those that were admitted, even if
// nobody is left to hear of it.
type backend struct {
	*httptest.Server
	hits atomic.Int64
}

func newBackend(t *testing.T) *backend {
	b := new(backend)
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.hits.Add(1)
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(b.Close)
	return b
}

// env is the environment in which {$BACKEND} is the backend.
func (b *backend) env() string { return "BACKEND=" + strings.TrimPrefix(b.URL, "http://") }

// limitedProxy is a Caddyfile of one site that passes requests to {$BACKEND}
// within a limit. The backend may take its time as the store may.
func limitedProxy(limit string) string {
	return options(patient+trusting) + site("rate_limit {\nzone z {\nlimit "+limit+"\n}\n}\nreverse_proxy {$BACKEND} {\ntransport http {\ndial_timeout 1m\n}\n}")
}

// algorithms are those of limits.
var algorithms = []string{"sliding", "fixed", "token_bucket"}

// byAlgorithm is a Caddyfile with a limit by each algorithm, at the path of its name.
func byAlgorithm(limit string) string {
	var zones strings.Builder
	for _, algorithm := range algorithms {
		fmt.Fprintf(&zones, "zone %s {\nmatch /%[1]s\nlimit %s %[1]s\n}\n", algorithm, limit)
	}
	return config(zones.String())
}

// wantPassedByEach checks that of n requests, one after another, as many pass each algorithm.
func (s *server) wantPassedByEach(want, n int) {
	s.t.Helper()
	for _, algorithm := range algorithms {
		s.wantPassed(want, n, "/"+algorithm)
	}
}

func TestCountsSurviveCrash(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, byAlgorithm("100/366d"))
	for _, algorithm := range algorithms {
		if passed := s.passedOfBurst(37, "/"+algorithm); passed != 37 {
			t.Fatalf("%s: %d passed, want 37", algorithm, passed)
		}
	}
	s.kill()
	s.start()
	// What was in memory for requests to come may be lost: of every claim
	// of the burst an eighth of what was left then, at most.
	for _, algorithm := range algorithms {
		passed := s.passedOfBurst(200, "/"+algorithm)
		if passed > 63 || passed < 63-100/8-10 {
			t.Errorf("%s: %d passed after the crash, want 63 or a few less", algorithm, passed)
		}
	}
	s.kill()
	s.start()
	s.wantPassedByEach(0, 5)
}

func TestBlockedClientStaysBlockedAfterCrash(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 5/1h\n}"))
	s.wantPassed(5, 6, "/", "X-Forwarded-For: 192.0.2.1")
	s.kill()
	s.start()
	s.wantPassed(0, 3, "/", "X-Forwarded-For: 192.0.2.1")
	s.wantPassed(5, 6, "/", "X-Forwarded-For: 192.0.2.2")
}

// Crashes come while requests are under way.
func TestManyCrashesUnderLoadNeverPassMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := startCaddy(t, limitedProxy("400/1h"), b.env())
	for life := range 5 {
		if life > 0 {
			s.start()
		}
		before := b.hits.Load()
		var refused atomic.Bool
		stop := repeat(8, func(int) { // it fails when Caddy is killed
			if a, err := s.try(http.MethodGet, "/"); err == nil && a.status == http.StatusTooManyRequests {
				refused.Store(true)
			}
		})
		waitFor(t, "requests to pass", func() bool { return b.hits.Load() >= before+40 || refused.Load() })
		s.kill()
		stop()
	}
	s.start()
	s.passedOfBurst(500, "/")
	s.wantPassed(0, 5, "/")
	if hits := b.hits.Load(); hits > 400 {
		t.Errorf("%d requests passed, the limit is 400", hits)
	}
}

func TestStopGivesBackWhatIsUnspent(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, byAlgorithm("100/366d"))
	s.wantPassedByEach(10, 10)
	s.stop()
	s.start()
	s.wantPassedByEach(20, 20)
	s.stop()
	s.start()
	s.wantPassedByEach(70, 72)
}

func TestTwoProcessesShareOneDatabase(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	first := startCaddy(t, limitedProxy("300/366d"), b.env())
	second := newServer(t, limitedProxy("300/366d"), b.env(), "XDG_DATA_HOME="+first.data())
	second.start()

	var load sync.WaitGroup
	for _, s := range []*server{first, second} {
		for range 4 {
			load.Go(func() { s.passedOfBurst(100, "/") })
		}
	}
	load.Wait()
	if hits := b.hits.Load(); hits > 300 || hits < 200 {
		t.Errorf("%d of 800 requests passed, the limit is 300", hits)
	}
	for _, s := range []*server{first, second} {
		s.wantPassed(0, 3, "/")
		s.stop()
	}
	// Both have given back what they held, so all of it can be had.
	first.start()
	first.passedOfBurst(200, "/")
	if hits := b.hits.Load(); hits != 300 {
		t.Errorf("%d requests passed in all, want the limit of 300", hits)
	}
}

// A process that comes after the index of the log was removed makes another. It
// shares the database all the same with the one that is still there.
func TestSecondProcessAfterTheIndexIsRemoved(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	first := startCaddy(t, limitedProxy("300/30d"), b.env())
	first.wantPassed(50, 50, "/")
	if err := os.Remove(first.database() + "-shm"); errors.Is(err, fs.ErrPermission) || runtime.GOOS == "windows" {
		t.Skip("a file in use can't be removed here:", err)
	} else if err != nil {
		t.Fatal(err)
	}
	second := newServer(t, limitedProxy("300/30d"), b.env(), "XDG_DATA_HOME="+first.data())
	second.start()
	for first.passedOfBurst(50, "/")+second.passedOfBurst(50, "/") > 0 {
		first.awaitRecovery()
	}
	if hits := b.hits.Load(); hits > 300 || hits < 250 {
		t.Errorf("%d requests passed in all, the limit is 300", hits)
	}
	for _, s := range []*server{first, second} {
		s.stop()
	}
	if _, err := integrity(first.database()); err != nil {
		t.Error(err)
	}
}

// A process that comes later knows what one that is still there has admitted.
func TestSecondProcessKnowsWhoIsBlocked(t *testing.T) {
	t.Parallel()
	first := startCaddy(t, config("zone z {\nlimit 5/1h\n}"))
	first.wantPassed(5, 6, "/")
	second := newServer(t, config("zone z {\nlimit 5/1h\n}"), "XDG_DATA_HOME="+first.data())
	second.start()
	second.wantPassed(0, 3, "/")
}
