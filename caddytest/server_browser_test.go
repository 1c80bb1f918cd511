package caddytest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// A person without JavaScript waits, and is back where the page was called up.
func TestBrowserWithoutScriptEarnsASession(t *testing.T) {
	t.Parallel()
	proof.Only(t)
	b := browser.Start(t, browser.Find(t))
	arrived := make(chan string, 100)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.RequestURI() + " " + r.Header.Get("X-Kind")
	}))
	t.Cleanup(backend.Close)
	s := startCaddy(t, options(`
	rate_limit {
		store_timeout 1m
		session {
			challenge proof_of_work {
				without_script 5s
			}
		}
	}`)+site(`
	rate_limit {
		zone pages {
			match /where
			per client
			limit 1/1h
			prefix_ceiling 1
			on_exceeded challenge
		}
	}
	reverse_proxy {$BACKEND} {
		header_up X-Kind {http.rate_limit.client.kind}
	}`), "BACKEND="+strings.TrimPrefix(backend.URL, "http://"))
	s.wantPassed(1, 2, "/where")
	<-arrived
	b.Open(t, browser.View{Width: 360, Height: 740, NoScript: true}).Go("http://site.test:" + s.port + "/where?x=1")
	timeout := time.After(2 * time.Minute)
	for want, got := "/where?x=1 session", ""; got != want; {
		select {
		case got = <-arrived:
			if got != want && !strings.HasPrefix(got, "/favicon.ico") {
				t.Fatalf("the backend is asked for %q, want %q", got, want)
			}
		case <-timeout:
			t.Fatalf("the browser never came to %q", want)
		}
	}
}

// A person whose network has used up its limit calls up a page, and comes there
// without doing anything.
func TestBrowserEarnsASession(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
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
	browser.Visit(t, chromium, "http://site.test:"+s.port+"/where?x=1#part")
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

// The example's pages can be used in every view: the one to try limits on, and the one of a
// refusal. Each is looked at in one view only without PROOF.
func TestBrowserShowsTheExample(t *testing.T) {
	t.Parallel()
	b, axe := browser.Start(t, browser.Find(t)), browser.FindAxe(t)
	binary, err := caddyBinary()
	if err != nil {
		t.Fatal(err)
	}
	address := startExample(t, binary, "Caddyfile", "")
	page := b.Open(t, browser.Views()[0])
	first, second := browser.Views(), browser.Views()
	if !proof.IsOn() {
		first, second = first[:1], second[1:]
	}
	for _, v := range first {
		page.Show(v)
		page.Go(address + "/")
		page.Inspect(t, axe, v, "the page to try limits on")
		page.WantQuiet(t, address)
	}
	for _, v := range second {
		useUpLogin(t, address) // again, for the minute may be over
		page.Show(v)
		page.Go(address + "/")
		page.Load(func() { page.Eval(`document.querySelector("form").submit()`, nil) })
		page.Inspect(t, axe, v, "the page of a refusal")
	}
}

// useUpLogin uses up the limit of the example's form.
func useUpLogin(t *testing.T, address string) {
	t.Helper()
	client := newClient()
	defer client.CloseIdleConnections()
	for range 6 {
		r, err := http.NewRequest(http.MethodPost, address+"/login", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := do(client, r); err != nil {
			t.Fatal(err)
		}
	}
}
