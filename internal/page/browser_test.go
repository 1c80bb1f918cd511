package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// serve serves the page. The query contains its language and the waiting time in seconds.
func serve(t *testing.T) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := full(language.Choose(r.FormValue("lang")))
		seconds, _ := strconv.Atoi(r.FormValue("wait"))
		e.retry = time.Duration(seconds) * time.Second
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", RefusedPolicy)
		w.Write([]byte(render(t, e)))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// In both schemes from 320 to 1280 px, with and without scripts, and in every language, the page
// has an empty console, loads nothing from elsewhere, needs no horizontal scrolling, and passes
// axe.
func TestBrowserShowsThePage(t *testing.T) {
	t.Parallel()
	b, axe, address := browser.Start(t, browser.Find(t)), browser.FindAxe(t), serve(t)
	for _, v := range browser.Views() {
		page := b.Open(t, v)
		for _, query := range []string{"/?lang=de&wait=3600", "/?lang=de&wait=0"} {
			page.Go(address + query)
			page.Inspect(t, axe, v, query)
		}
		page.WantQuiet(t, address)
	}
	v := browser.View{Width: 320, Height: 640}
	page := b.Open(t, v)
	for _, texts := range language.All() {
		page.Go(address + "/?lang=" + texts.Tag + "&wait=3600")
		page.Inspect(t, axe.InDepth(), v, texts.Tag)
	}
	page.WantQuiet(t, address)
}

// The page counts down, and then says that the time is over and shows the link. It uses a fake
// clock.
func TestBrowserCountsDown(t *testing.T) {
	t.Parallel()
	b, address := browser.Start(t, browser.Find(t)), serve(t)
	page := b.Open(t, browser.View{Width: 360, Height: 740})
	page.Go(address + "/?lang=de&wait=100")
	text := func() (shown struct {
		When, Now    string
		Timer, Again bool
	}) {
		page.Eval(`({
			When: document.querySelector(".when").innerText,
			Now: document.querySelector("[role=status]").innerText,
			Timer: document.querySelector(".when").checkVisibility(),
			Again: document.querySelector(".again").checkVisibility(),
		})`, &shown)
		return shown
	}
	if got := text(); got.When != "Sie können es in 2 Minuten wieder versuchen." || got.Now != "" || got.Again {
		t.Errorf("at first the page shows %+v", got)
	}
	page.Eval(`{ const real = Date.now; let later = 60e3; Date.now = () => real() + later; window.advance = (ms) => { later += ms; }; }`, nil)
	page.Wait(`/in [34]\d Sekunden/.test(document.querySelector(".when").innerText)`)
	page.Eval(`advance(100e3)`, nil)
	page.Wait(`document.querySelector(".again").checkVisibility()`)
	if got := text(); got.Timer || got.Now != language.Choose("de").Now {
		t.Errorf("at last the page shows %+v", got)
	}
	page.Load(func() { page.Eval(`document.querySelector(".again").click()`, nil) })
	if got := text(); !got.Timer || got.Now != "" {
		t.Errorf("the link leads to a page that shows %+v", got)
	}
	page.WantQuiet(t, address)
}

// The script counts down in the browser's own words. They equal those of the table, for every
// number with a form.
func TestTimesAreThoseOfTheBrowser(t *testing.T) {
	t.Parallel()
	b, address := browser.Start(t, browser.Find(t)), serve(t)
	page := b.Open(t, browser.View{Width: 360, Height: 740})
	page.Go(address)
	units := map[wording.Unit]string{wording.Second: "second", wording.Minute: "minute", wording.Hour: "hour", wording.Day: "day"}
	for _, texts := range language.All() {
		for unit, name := range units {
			var said []string
			page.Eval(fmt.Sprintf(`Array.from({length: 400}, (_, i) => new Intl.RelativeTimeFormat(%q, {numeric: "always"}).format(i + 1, %q))`, texts.Tag, name), &said)
			for i, want := range said {
				if got := texts.In[unit].Format(int64(i + 1)); got != want {
					t.Errorf("%s: %q, where the browser says %q", texts.Tag, got, want)
				}
			}
		}
	}
}
