package replay

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/browser"
)

// The page is quiet and usable, in both schemes from 320 to 1280 px, with and without scripts:
// nothing in the console, nothing from elsewhere, nothing to scroll sideways for, and nothing that axe finds.
func TestBrowserShowsTheReport(t *testing.T) {
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

func htmlOf(t *testing.T, p *Report) []byte {
	t.Helper()
	out := new(bytes.Buffer)
	if err := p.WriteHTML(out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
