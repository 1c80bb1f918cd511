package replay

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
)

// In both schemes from 320 to 1280 px, with and without scripts, the page has an empty console,
// loads nothing from elsewhere, needs no horizontal scrolling, and passes axe.
func TestBrowserShowsTheReport(t *testing.T) {
	t.Parallel()
	b, axe := browser.Start(t, browser.Find(t)), browser.FindAxe(t)
	pages := map[string][]byte{"/busy": htmlOf(t, busyReport(t)), "/empty": htmlOf(t, new(Report))}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(pages[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	for _, v := range browser.Views() {
		page := b.Open(t, v)
		for path := range pages {
			page.Go(server.URL + path)
			page.Inspect(t, axe, v, path)
		}
		page.WantQuiet(t, server.URL)
	}
}

// The page needs no server: it opens as a file, and loads nothing else. Its policy also prevents
// requests if any text of a log ever became markup.
func TestBrowserOpensTheFile(t *testing.T) {
	t.Parallel()
	b := browser.Start(t, browser.Find(t))
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, htmlOf(t, busyReport(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the page asks for %s", r.URL) }))
	t.Cleanup(server.Close)
	page := b.Open(t, browser.View{Width: 1280, Height: 900})
	page.Go("file://" + file)
	var bars, tables int
	page.Eval(`document.querySelectorAll("svg rect").length`, &bars)
	page.Eval(`document.querySelectorAll("tbody tr").length`, &tables)
	if bars == 0 || tables == 0 {
		t.Errorf("the page shows %d bars and %d rows", bars, tables)
	}
	page.WantQuiet(t, "file://"+file)
	var done bool
	page.Eval(`new Promise((done) => {
		const image = new Image()
		image.onload = image.onerror = () => fetch("`+server.URL+`/fetched", {mode: "no-cors"}).then(() => done(false), () => done(true))
		image.src = "`+server.URL+`/image"
	})`, &done)
	if !done {
		t.Error("a script of the page may fetch something")
	}
}

func htmlOf(t *testing.T, p *Report) []byte {
	t.Helper()
	out := new(bytes.Buffer)
	if err := p.WriteHTML(out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
