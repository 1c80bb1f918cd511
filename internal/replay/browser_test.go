package replay

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// The line of a limit moves by its slider and by pointer to every amount of the table, and to amounts between
// them. At the configured one the effect is the replay's own, at each that of the table; what is right of the line is
// shown as refused.
func TestBrowserMovesTheLimit(t *testing.T) {
	t.Parallel()
	b, report := browser.Start(t, browser.Find(t)), busyReport(t)
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, htmlOf(t, report), 0o600); err != nil {
		t.Fatal(err)
	}
	page := b.Open(t, browser.View{Width: 390, Height: 800})
	page.Go("file://" + file)
	type state struct {
		Effect, Name string
		Over         int
		X            float64
	}
	const now = `(() => {
		const input = document.querySelector("input"), svg = document.querySelector(".drag")
		return {Effect: document.querySelector("output").textContent, Name: input.getAttribute("aria-valuetext"),
			Over: svg.querySelectorAll(".over").length, X: svg.querySelector("line").x1.baseVal.value}
	})()`
	l := report.Limits[0]
	var s state
	look := func() {
		page.Eval(now, &s)
		s.Effect = strings.ReplaceAll(s.Effect, "1,000", "1000")
	}
	look()
	if want := fmt.Sprintf("A limit of 5 would refuse %d of %d clients; 0 of these", l.Hit, l.Clients); !strings.HasPrefix(s.Effect, want) {
		t.Errorf("at first got %q, want %q", s.Effect, want)
	}
	var amounts []int64
	page.Eval(`JSON.parse(document.querySelector("input").dataset.steps).map((step) => Number(step.name.replace(",", "")))`, &amounts)
	for _, a := range append(slices.Clone(l.Amounts), Amount{Amount: 3}, Amount{Amount: 7}, Amount{Amount: 12}) {
		if !slices.Contains(amounts, a.Amount) {
			t.Errorf("the slider has no %d: %v", a.Amount, amounts)
		}
	}
	last := -1.0
	for i, amount := range amounts {
		a := Amount{Amount: amount} // forty people want one each, and one client more
		if amount < l.Peaks.Max {
			a.Clients = 1
		}
		page.Eval(fmt.Sprintf(`(() => { const i = document.querySelector("input"); i.value = %d; i.dispatchEvent(new Event("input")); return true })()`, i), new(bool))
		look()
		s.Name = strings.ReplaceAll(s.Name, ",", "")
		want := fmt.Sprintf("A limit of %d would refuse %d of %d clients", a.Amount, a.Clients, l.Clients)
		if !strings.HasPrefix(s.Effect, want) || s.Name != fmt.Sprint(a.Amount) || (s.Over > 0) != (a.Clients > 0) || s.X < last {
			t.Errorf("got %+v, want %q", s, want)
		}
		last = s.X
	}
	page.Eval(`(() => {
		const svg = document.querySelector(".drag"), box = svg.getBoundingClientRect()
		svg.dispatchEvent(new PointerEvent("pointerdown", {clientX: box.left + 1, buttons: 1}))
		return true
	})()`, new(bool))
	look()
	if s.Name != fmt.Sprint(l.Amounts[0].Amount) {
		t.Errorf("after dragging to the left got %+v", s)
	}
	page.WantQuiet(t, "file://"+file)
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
