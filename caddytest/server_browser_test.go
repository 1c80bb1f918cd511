package caddytest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A person whose network has used up its limit calls up a page, and comes there
// without doing anything.
func TestBrowserEarnsASession(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	browser := chromium(t)
	requests := make(chan string, 100)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.URL.RequestURI() + " " + r.Header.Get("X-Kind") + " " + r.Header.Get("Cookie")
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte("<script>fetch('/arrived?' + location.hash.slice(1))</script>"))
	}))
	t.Cleanup(backend.Close)
	s := startCaddy(t, options(`
	rate_limit {
		store_timeout 1m
		session {
			challenge proof_of_work 12
		}
	}`)+site(`
	rate_limit {
		zone pages {
			match path /where /arrived
			per client
			limit 3/1h
			prefix_ceiling 1
			on_exceeded challenge
		}
	}
	reverse_proxy {$BACKEND} {
		header_up X-Kind {http.rate_limit.client.kind}
		transport http {
			dial_timeout 1m
		}
	}`), "BACKEND="+strings.TrimPrefix(backend.URL, "http://"))
	s.wantPassed(3, 4, "/where")
	for range 3 {
		<-requests
	}
	browse(t, browser, "http://site.test:"+s.port+"/where?x=1#part")
	timeout := time.After(2 * time.Minute)
	for _, want := range []string{"/where?x=1 session ", "/arrived?part session "} {
		for got := ""; got != want; {
			select {
			case got = <-requests:
				if strings.HasPrefix(got, "/favicon.ico") {
					continue
				}
				if got != want {
					t.Fatalf("the backend is asked for %q, want %q", got, want)
				}
			case <-timeout:
				t.Fatalf("the browser never came to %q", want)
			}
		}
	}
}

// browse has a browser go to an address of site.test, until the test ends.
func browse(t *testing.T, browser, address string) {
	t.Helper()
	profile, err := os.MkdirTemp("", "tally-browser-") // TempDir would mind what its children still write
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, browser,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
		"--host-resolver-rules=MAP site.test 127.0.0.1", "--remote-debugging-port=0", "--user-data-dir="+profile, address)
	cmd.Env = append(os.Environ(), "TMPDIR="+profile) // where it leaves things as well
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait() // an error: it was killed
		os.RemoveAll(profile)
	})
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium to drive: the challenge is not tried in a browser")
	return ""
}
