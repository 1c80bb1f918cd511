package challenge

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
)

// A browser that is refused solves the puzzle, and is back where it was. It goes
// through plain HTTP and a name, where it has no WebCrypto.
func TestBrowserSolvesThePage(t *testing.T) {
	t.Parallel()
	s := newSiteWithPuzzle(t)
	server := httptest.NewServer(s)
	defer server.Close()
	at, _ := url.Parse(server.URL)
	browser.Visit(t, browser.Find(t), "http://site.test:"+at.Port()+"/where?x=1#part")

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

// While it is being solved, with each kind of challenge, in both schemes from 320 to 1280 px, with
// and without scripts: nothing in the console, nothing from elsewhere, nothing to scroll sideways
// for, and nothing that axe finds.
func TestBrowserShowsThePage(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(showing(t))
	t.Cleanup(server.Close)
	b, axe := browser.Start(t, browser.Find(t)), browser.FindAxe(t)
	for _, v := range browser.Views() {
		tab := b.Open(t, v)
		for _, query := range []string{"?lang=de", "?lang=zh", "?lang=de&kind=wait", "?lang=de&kind=widget"} {
			tab.Go(server.URL + "/" + query)
			tab.Eval(`document.querySelector("details").open = true`, nil)
			if !v.NoScript && !strings.Contains(query, "widget") {
				var status string
				tab.Eval(`document.querySelector(".status").textContent`, &status)
				if want := language.Choose(query[len("?lang="):][:2]).Solving; status != want {
					t.Errorf("%s: the page says %q, want %q", query, status, want)
				}
			}
			tab.Inspect(t, axe, v, query, acceptedFindings...)
		}
		tab.WantQuiet(t, server.URL)
		tab.Go("about:blank") // which ends the workers
	}
}

// Somebody who reloads the page gets the puzzle again, however often.
func TestBrowserSolvesThePageAfterReloads(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(showing(t))
	t.Cleanup(server.Close)
	tab := browser.Start(t, browser.Find(t)).Open(t, browser.Views()[0])
	for n := range 6 {
		tab.Go(server.URL + "/?lang=de")
		var status string
		tab.Eval(`document.querySelector(".status").textContent`, &status)
		if want := language.Choose("de").Solving; status != want {
			t.Errorf("time %d: the page says %q, want %q", n+1, status, want)
		}
	}
}

// acceptedFindings are rules of axe that the page breaks on purpose. Without scripts it goes on by
// itself after a time: that is what it is for, it says so, and it has a link for those who rather
// choose the moment.
var acceptedFindings = []string{"meta-refresh"}

// showing serves the page: the query has its language and the kind of challenge.
func showing(t *testing.T) http.Handler {
	setter := newSetter(t, MaxDifficulty, oneSecret) // which takes minutes
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.Header().Set("Content-Type", "text/javascript") // the widget's
			return
		}
		puzzle := setter.Set(time.Now(), site, home)
		wait := setter.SetWait(time.Now(), site, home, time.Minute)
		shown := Page{
			Texts: language.Choose(r.FormValue("lang")), Site: page.Site{Name: "Example & Söhne", Contact: "help@example.com"}, Action: "/verify", Puzzle: &puzzle,
			Retry: time.Hour, Reference: page.Reference{Short: "es6vg-mf38q", Whole: "es6vgmf38q0ndd74y6072e8h23n030vehfwh6x5f1bbs2evne6k8xygrykk8frtx"},
		}
		switch r.FormValue("kind") {
		case "wait":
			shown.Wait, shown.Notice = &wait, shown.Texts.Early
		case "widget":
			shown.Puzzle, shown.Widget = nil, &Widget{Script: "/widget.js", Class: "widget", SiteKey: "key", Sources: []string{"'self'"}}
		}
		w.Header().Set("Content-Security-Policy", shown.Policy())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(shown.Render())
	})
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
	puzzle := s.setter.Set(time.Now(), site, home)
	page := Page{Texts: language.Choose(""), Action: "/verify", Target: r.URL.RequestURI(), Puzzle: &puzzle}
	w.Header().Set("Content-Security-Policy", page.Policy()+"; report-uri /violated")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusTooManyRequests)
	w.Write(page.Render())
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
