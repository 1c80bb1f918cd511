package replay

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/browser"
)

// The page is quiet and usable, in both schemes from 320 to 1280 px: nothing in the console,
// nothing from elsewhere, nothing to scroll sideways for, and nothing that axe finds.
func TestBrowserShowsTheReport(t *testing.T) {
	b, axe := browser.Start(t, browser.Find(t)), browser.FindAxe(t)
	pages := map[string][]byte{"/busy": htmlOf(t, busyReport(t)), "/empty": htmlOf(t, new(Report))}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(pages[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	for _, v := range []browser.View{
		{Width: 320, Height: 640}, {Width: 320, Height: 640, Dark: true}, {Width: 768, Height: 900}, {Width: 768, Height: 900, Dark: true},
		{Width: 1280, Height: 900}, {Width: 1280, Height: 900, Dark: true},
	} {
		page := b.Open(t, v)
		for path := range pages {
			page.Go(server.URL + path)
			var wide int
			page.Eval(`document.documentElement.scrollWidth`, &wide)
			if wide > v.Width {
				t.Errorf("%s: the page is %d px wide in a window of %d", path, wide, v.Width)
			}
			for _, found := range axe.Findings(page) {
				t.Errorf("%s at %d px: axe finds %s", path, v.Width, found)
			}
		}
		for _, trouble := range page.Troubles() {
			t.Error(trouble)
		}
		for _, asked := range page.Requests() {
			if !strings.HasPrefix(asked, server.URL) && !strings.HasPrefix(asked, "data:") {
				t.Errorf("the page asks %s", asked)
			}
		}
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
