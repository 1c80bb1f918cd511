package caddytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// places is a Caddy before an app that answers a request only when that may end.
type places struct {
	*server
	came, let chan struct{}
	all       sync.WaitGroup
}

// startPlaces starts a Caddy before an app.
func startPlaces(t *testing.T, config string) *places {
	t.Helper()
	s := &places{came: make(chan struct{}, 100), let: make(chan struct{}, 100)}
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		s.came <- struct{}{}
		<-s.let
	}))
	s.server = startCaddy(t, config, "BACKEND="+strings.TrimPrefix(app.URL, "http://"))
	t.Cleanup(func() {
		close(s.let)
		s.all.Wait()
		app.Close()
	})
	return s
}

// withPlaces is a Caddyfile of one site.
func withPlaces(words string) string { return options(patient) + placesAt("{$PORT}", words) }

// placesAt is a site on a port with places for everybody.
func placesAt(port, words string) string {
	return "http://:" + port + " {\nrate_limit {\nzone work {\nper everyone\n" + words + "\n}\n}\nreverse_proxy {$BACKEND}\n}\n"
}

// begin sends a request until it passes. It lasts until one may end.
func (s *places) begin() {
	s.all.Go(func() {
		waitFor(s.t, "a place", func() bool { return s.get("/").isAllowed(s.t) })
	})
}

// enter waits until so many more requests are under way.
func (s *places) enter(n int) {
	s.t.Helper()
	for range n {
		s.begin()
		s.awaitPlace()
	}
}

// awaitPlace waits until a request has found a place.
func (s *places) awaitPlace() {
	s.t.Helper()
	select {
	case <-s.came:
	case <-time.After(patience):
		s.t.Fatal("no request finds a place")
	}
}

// wantFull checks that no request finds a place.
func (s *places) wantFull(when string) {
	s.t.Helper()
	if a := s.get("/"); a.status != http.StatusTooManyRequests {
		s.t.Errorf("%s: one more request got %d, want 429", when, a.status)
	}
}

// A reload from 5 to 1 lets nobody in until all have left, whose config had 5.
func TestReloadToFewerPlaces(t *testing.T) {
	t.Parallel()
	s := startPlaces(t, withPlaces("limit 5 concurrent"))
	s.enter(5)
	s.wantFull("before the reload")
	if err := s.load(withPlaces("limit 1 concurrent")); err != nil {
		t.Fatal(err)
	}
	for remain := 4; remain > 0; remain-- {
		s.let <- struct{}{}
		s.wantFull(fmt.Sprint(remain, " of five are under way"))
	}
	s.let <- struct{}{}
	s.enter(1)
	s.wantFull("one is under way")
}

// A reload from 1 to 5 lets in those that wait already, and so many more that there are 5.
func TestReloadToMorePlaces(t *testing.T) {
	t.Parallel()
	s := startPlaces(t, withPlaces("limit 1 concurrent wait 1m queue 2"))
	s.enter(1)
	for range 2 {
		s.begin()
	}
	waitFor(t, "a line of two", func() bool {
		a, err := s.askAdmin(http.MethodGet, "/debug/pprof/goroutine?debug=2")
		return err == nil && strings.Count(a.body, "gate.(*Gate).Enter(") == 2
	})
	if err := s.load(withPlaces("limit 5 concurrent")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.awaitPlace() // without anybody leaving
	}
	s.enter(2)
	s.wantFull("five are under way")
}

// Two sites have zones of one name with 5 and 1: the smaller number holds in both, and a warning
// says so.
func TestSitesWithOtherPlaces(t *testing.T) {
	t.Parallel()
	for _, numbers := range [][2]int{{5, 1}, {1, 5}} {
		t.Run(fmt.Sprint(numbers), func(t *testing.T) {
			limit := func(i int) string { return fmt.Sprintf("limit %d concurrent", numbers[i]) }
			s := startPlaces(t, withPlaces(limit(0))+placesAt("{$OTHER}", limit(1)))
			if logs, want := s.logs(), "concurrent: 1 hold in all of them"; strings.Count(logs, want) != 1 {
				t.Errorf("the log lacks %q:\n%s", want, logs)
			}
			for range 2 {
				s.enter(1)
				s.wantFull("one is under way at this site")
				s.port, s.other = s.other, s.port
				s.wantFull("one is under way at the other site")
				s.let <- struct{}{}
			}
		})
	}
}
