package dashboard_test

import (
	"flag"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
)

var updateScreenshots = flag.Bool("screenshots.update", false, "take the pictures of the documents anew")

const pictures = "../../docs/pictures"

// TestScreenshots takes the pictures in the documents, with made-up clients. It is for `make
// screenshots`, and checks nothing.
func TestScreenshots(t *testing.T) {
	if !*updateScreenshots {
		t.Skip("make screenshots takes pictures")
	}
	now := func() time.Time { return time.Date(2026, 11, 22, 14, 32, 40, 0, time.UTC) }
	server := httptest.NewServer(newSite(t, sample.New(now), func(o *dashboard.Options) { o.Now = now }).handler)
	t.Cleanup(server.Close)
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}
	chromium := browser.Find(t)
	b := browser.Start(t, chromium)
	for scheme, isDark := range map[string]bool{"light": false, "dark": true} {
		wide, narrow := browser.View{Width: 1280, Height: 1020, Dark: isDark}, browser.View{Width: 390, Height: 1240, Dark: isDark, Scale: 1.5}
		page := b.Open(t, wide)
		page.SetZone("UTC")
		page.Go(server.URL + "/")
		page.Wait(`document.querySelector("[data-feed]").children.length > 3`)
		take(t, page, "dashboard-now-"+scheme, wide)
		page.Go(server.URL + "/requests")
		take(t, page, "dashboard-requests-"+scheme, wide)
		page.Go(server.URL + "/clients")
		page.Load(func() {
			page.Eval(`document.querySelector("tbody tr:nth-child(2) form[action=explain]").requestSubmit()`, nil)
		})
		take(t, page, "dashboard-explain-"+scheme, browser.View{Width: 1280, Height: 900})
		page.Go(server.URL + "/history?range=7d")
		take(t, page, "dashboard-history-"+scheme, browser.View{Width: 1280, Height: 860})
		page.Show(narrow)
		page.Go(server.URL + "/clients")
		page.Eval(`document.querySelector("details.menu").open = true`, nil)
		take(t, page, "dashboard-phone-"+scheme, narrow)
	}
}

func take(t *testing.T, page *browser.Page, name string, v browser.View) {
	t.Helper()
	path := filepath.Join(pictures, name+".png")
	if err := os.WriteFile(path, page.Picture(v.Width, v.Height), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("pngquant", "--force", "--skip-if-larger", "--ext", ".png", "--quality", "70-95", "--strip", path).CombinedOutput(); err != nil {
		t.Logf("%s isn't made smaller: %v %s", name, err, out)
	}
}
