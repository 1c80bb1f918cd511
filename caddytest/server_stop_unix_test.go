//go:build unix

package caddytest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// lasting is a site where a request to /line waits behind another one, a second one to /delay for its
// unit, and where the dashboard is open to all.
func lasting(global string) string {
	return options(patient+global) + site(`rate_limit {
	zone line {
		match path /line
		per everyone
		limit 1 concurrent wait 5m
	}
	zone delay {
		match path /delay
		per everyone
		limit 1/50s burst 1
		on_exceeded delay 1m
	}
}
rate_limit_dashboard /limits/* {
	allow 127.0.0.1/8
}
handle /line {
	reverse_proxy {$BACKEND}
}
handle {
	respond hello
}`)
}

// lastingRequests are the requests of a test that would last for minutes.
type lastingRequests struct {
	*server
	holder, waits, delayed chan answer
	streams                sync.WaitGroup
	release                func() // ends the answer to holder
	reloaded, stopping     bool   // when Caddy stops, it doesn't wait for answers of the config before a reload
}

// startHolder starts a Caddy and a request that holds the place of /line.
func startHolder(t *testing.T, global string) *lastingRequests {
	arrived, let := make(chan struct{}, 9), make(chan struct{})
	b := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-let
	}))
	release := sync.OnceFunc(func() { close(let) })
	t.Cleanup(func() {
		release()
		b.Close()
	})
	s := &lastingRequests{server: startCaddy(t, lasting(global), "BACKEND="+strings.TrimPrefix(b.URL, "http://")), release: release}
	s.holder = s.begin("/line")
	waitFor(t, "the request that holds the place", func() bool { return len(arrived) == 1 })
	return s
}

// startLasting starts a Caddy and the requests.
func startLasting(t *testing.T, global string) *lastingRequests {
	s := startHolder(t, global)
	s.get("/delay")
	s.waits, s.delayed = s.begin("/line"), s.begin("/delay")
	s.await("Gate).Enter")
	s.await("Tenant).Sleep")
	s.stream("http://127.0.0.1:" + s.port + "/limits/events")
	s.stream("http://" + s.admin + "/rate_limit/events")
	return s
}

// begin sends a request. The channel gets the answer, or one with the error.
func (l *lastingRequests) begin(path string) chan answer {
	got := make(chan answer, 1)
	go func() {
		a, err := l.try(http.MethodGet, path)
		if err != nil {
			a = answer{body: fmt.Sprintf("%s: %v", path, err)}
		}
		got <- a
	}()
	return got
}

// await waits until a goroutine of Caddy is in a function.
func (l *lastingRequests) await(function string) {
	l.t.Helper()
	waitFor(l.t, function, func() bool { return l.isIn(function) })
}

// isIn reports whether a goroutine of Caddy is in a function.
func (l *lastingRequests) isIn(function string) bool {
	a, err := l.askAdmin(http.MethodGet, "/debug/pprof/goroutine?debug=1")
	return err == nil && strings.Contains(a.body, function)
}

// stream opens a stream of events, which must end in good order.
func (l *lastingRequests) stream(url string) {
	l.t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	client := &http.Client{Transport: new(http.Transport)}
	a, err := client.Do(r)
	if err != nil || a.Header.Get("Content-Type") != "text/event-stream" {
		l.t.Fatalf("%s: %v, %v", url, a, err)
	}
	l.streams.Go(func() {
		defer a.Body.Close()
		if _, err := io.Copy(io.Discard, a.Body); err != nil {
			l.t.Errorf("%s: the stream breaks off: %v", url, err)
		}
	})
}

// wantStopped checks that a request waits no longer, and may come again. When Caddy stops after a reload, it doesn't
// wait for connections of the config before, so that an answer may come or not.
func (l *lastingRequests) wantStopped(name string, got chan answer) {
	l.t.Helper()
	if a := <-got; a.status == 0 && l.reloaded && l.stopping {
		return
	} else if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
		l.t.Errorf("%s: got %d and Retry-After %q, want 503 and 1: %s", name, a.status, a.header.Get("Retry-After"), a.body)
	}
}

// terminate sends SIGTERM and checks that everything ends but what is under way, whose client gets
// its answer.
func (l *lastingRequests) terminate() {
	l.t.Helper()
	l.stopping = true
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		l.t.Fatal(err)
	}
	l.wantStopped("the request in the line", l.waits)
	l.wantStopped("the delayed request", l.delayed)
	l.release()
	if a := <-l.holder; a.status != http.StatusOK && !l.reloaded {
		l.t.Errorf("the request under way: got %d, want 200: %s", a.status, a.body)
	}
	l.awaitEnd()
	l.streams.Wait()
}

// An open dashboard page, a stream of events and waiting requests don't keep Caddy from stopping,
// however long it waits for requests.
func TestNothingOfOursOutlivesAStop(t *testing.T) {
	t.Parallel()
	for _, global := range []string{"", "grace_period 0", "grace_period 10s", "shutdown_delay 1s"} {
		t.Run(global, func(t *testing.T) {
			t.Parallel()
			startLasting(t, global).terminate()
		})
	}
}

// Streams end at a reload, so that the page connects to the next config. Waiting requests go on: none
// is lost. They end when Caddy stops afterwards.
func TestRequestsWaitThroughAReload(t *testing.T) {
	t.Parallel()
	for _, stops := range []bool{false, true} {
		s := startLasting(t, "")
		if err := s.load(lasting("")); err != nil {
			t.Fatal(err)
		}
		s.reloaded = true
		s.streams.Wait()
		s.await("Gate).Enter")
		s.await("Tenant).Sleep")
		if stops {
			s.terminate()
			continue
		}
		s.release()
		if a, b := <-s.holder, <-s.waits; a.status != http.StatusOK || b.status != http.StatusOK {
			t.Errorf("got %d and %d, want 200 for the request in the line", a.status, b.status)
		}
		if err := s.load(options("") + site("respond hello")); err != nil { // without limits nobody tells of the stop
			t.Fatal(err)
		}
		s.wantStopped("the delayed request", s.delayed)
		s.server.terminate()
	}
}

// A client of HTTP/1 that goes away while it waits leaves the line, even if its request has a body.
// One that doesn't send its body isn't in the line.
func TestPostsThatAreAbortedLeaveTheLine(t *testing.T) {
	t.Parallel()
	s := startHolder(t, "")
	for body, function := range map[string]string{"hello": "Gate).Enter", "": "body).hear"} {
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /line HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"+body); err != nil {
			t.Fatal(err)
		}
		s.await(function)
		if body == "" && s.isIn("Gate).Enter") {
			t.Error("a request without its body is in the line")
		}
		conn.Close()
		waitFor(t, "the aborted request to leave", func() bool { return !s.isIn(function) })
	}
	s.release()
	if a := <-s.holder; a.status != http.StatusOK {
		t.Errorf("the request under way: got %d, want 200", a.status)
	}
}
