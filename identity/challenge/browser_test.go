package challenge

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A browser that is refused solves the puzzle, and is back where it was. It goes
// through plain HTTP and a name, where it has no WebCrypto.
func TestBrowserSolvesThePage(t *testing.T) {
	s := newSiteWithPuzzle(t)
	server := httptest.NewServer(s)
	defer server.Close()
	at, _ := url.Parse(server.URL)
	browse(t, "http://site.test:"+at.Port()+"/where?x=1#part")

	timeout := time.After(2 * time.Minute)
	for _, want := range []string{"page /where?x=1", "solved", "back /where?x=1", "arrived part"} {
		select {
		case got := <-s.events:
			if got != want {
				t.Fatalf("%q, want %q", got, want)
			}
		case <-timeout:
			t.Fatalf("the browser never came to %q", want)
		}
	}
}

// siteWithPuzzle is a site that refuses who has no cookie.
type siteWithPuzzle struct {
	setter *Setter
	events chan string
}

func newSiteWithPuzzle(t *testing.T) *siteWithPuzzle {
	return &siteWithPuzzle{newSetter(t, 12, oneSecret), make(chan string, 100)}
}

func (s *siteWithPuzzle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, err := r.Cookie("passed")
	switch {
	case r.URL.Path == "/verify":
		s.verify(w, r)
	case r.URL.Path == "/violated":
		s.events <- "the page does what its policy forbids"
	case r.URL.Path == "/arrived":
		s.events <- "arrived " + r.URL.RawQuery
	case r.URL.Path != "/where":
		http.NotFound(w, r) // a browser asks for an icon
	case err != nil:
		s.refuse(w, r)
	default:
		s.events <- "back " + r.URL.RequestURI()
		w.Write([]byte("<script>fetch('/arrived?' + location.hash.slice(1))</script>"))
	}
}

func (s *siteWithPuzzle) refuse(w http.ResponseWriter, r *http.Request) {
	puzzle, _ := s.setter.Set(time.Now(), site, home)
	page := Page{Action: "/verify", Target: r.URL.RequestURI(), Puzzle: &puzzle}
	w.Header().Set("Content-Security-Policy", page.Policy()+"; report-uri /violated")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusTooManyRequests)
	page.Render(w)
	s.events <- "page " + r.URL.RequestURI()
}

func (s *siteWithPuzzle) verify(w http.ResponseWriter, r *http.Request) {
	if _, err := s.setter.Check(time.Now(), site, home, r.PostFormValue("puzzle"), r.PostFormValue("solution")); err != nil {
		s.events <- err.Error()
		return
	}
	s.events <- "solved"
	http.SetCookie(w, &http.Cookie{Name: "passed", Value: "1", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, Target(r.PostFormValue("target")), http.StatusSeeOther)
}

// browse has Chromium go to an address, until the test ends. It skips the test
// where there is none.
func browse(t *testing.T, address string) {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	profile, err := os.MkdirTemp("", "tally-browser-") // TempDir would mind what its children still write
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	browser := exec.CommandContext(ctx, chromium(t),
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
		"--host-resolver-rules=MAP site.test 127.0.0.1", "--remote-debugging-port=0", "--user-data-dir="+profile, address)
	browser.Env = append(os.Environ(), "TMPDIR="+profile) // where it leaves things as well
	browser.WaitDelay = 10 * time.Second
	var said strings.Builder
	browser.Stderr = &said
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		browser.Wait() // an error: it was killed
		os.RemoveAll(profile)
		if t.Failed() {
			t.Log(said.String())
		}
	})
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium to drive: the page is not tried in a browser")
	return ""
}
