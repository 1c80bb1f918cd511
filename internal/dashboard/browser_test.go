package dashboard_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
)

func viewName(v browser.View) string {
	name := fmt.Sprintf("%d", v.Width)
	if v.Dark {
		name += "-dark"
	}
	if v.NoScript {
		name += "-noscript"
	}
	return name
}

// Every page, at every size and in both schemes, has an empty console, loads nothing from
// elsewhere, needs no horizontal scrolling, and passes axe.
func TestBrowserPages(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	axe := browser.FindAxe(t)
	for name, service := range map[string]*sample.Service{"busy": sample.New(time.Now), "empty": sample.Empty(time.Now)} {
		server := httptest.NewServer(newSite(t, service).handler)
		t.Cleanup(server.Close)
		b, axe := browser.Start(t, chromium), axe
		if name == "empty" {
			axe = axe.InDepth()
		}
		for i, v := range browser.Views() {
			if name == "empty" && i > 0 {
				continue // all sizes look alike there
			}
			t.Run(name+"/"+viewName(v), func(t *testing.T) {
				page := b.Open(t, v)
				for _, path := range names {
					page.Go(server.URL + "/limits/" + path)
					look(t, page, v, axe, name+"-"+path)
				}
				for _, path := range []string{"history?range=30d", "nowhere"} {
					page.Go(server.URL + "/limits/" + path)
					look(t, page, v, axe.InDepth(), name+"-"+strings.ReplaceAll(path, "?", "-"))
				}
				if name == "busy" && !v.NoScript {
					page.Go(server.URL + "/limits/clients")
					page.Eval(`document.querySelector("details.menu").open = true`, nil)
					look(t, page, v, axe, name+"-menu")
					page.Load(func() { page.Eval(`document.querySelector("form[action=explain]").requestSubmit()`, nil) })
					look(t, page, v, axe, name+"-explained")
					page.Load(func() { page.Eval(`document.querySelector("form.decree[action=allow]").requestSubmit()`, nil) })
					look(t, page, v, axe.InDepth(), name+"-allowed")
				}
				for _, trouble := range page.Troubles() {
					if !strings.Contains(trouble, "404 (Not Found)") { // the missing page
						t.Error(trouble)
					}
				}
				for _, request := range page.Requests() {
					if !strings.HasPrefix(request, server.URL+"/limits/") {
						t.Errorf("the page asks for %s", request)
					}
				}
			})
		}
	}
}

// look inspects a page.
func look(t *testing.T, page *browser.Page, v browser.View, axe browser.Axe, name string) {
	t.Helper()
	keepPicture(t, page, v, name)
	page.Inspect(t, axe, v, name)
}

// keepPicture writes a picture of the whole page into the folder DASHBOARD_PICTURES, for manual
// inspection.
func keepPicture(t *testing.T, page *browser.Page, v browser.View, name string) {
	t.Helper()
	folder := os.Getenv("DASHBOARD_PICTURES")
	if folder == "" {
		return
	}
	height := v.Height
	if !v.NoScript {
		page.Eval(`document.documentElement.scrollHeight`, &height)
	}
	if err := os.WriteFile(filepath.Join(folder, name+"-"+viewName(v)+".png"), page.Picture(v.Width, min(height, 4000)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The plot and the numbers are updated live.
func TestBrowserLivePlotMoves(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	server := httptest.NewServer(newSite(t, sample.New(time.Now)).handler)
	t.Cleanup(server.Close)
	page := browser.Start(t, chromium).Open(t, browser.View{Width: 1280, Height: 900})
	page.Go(server.URL + "/limits/")
	const last = `document.querySelector("[data-live]").dataset.last`
	const image = `document.querySelector("[data-live] canvas").toDataURL()`
	page.Wait(last)
	var at, before, after string
	page.Eval(last, &at)
	page.Eval(image, &before)
	page.Wait(last + ` > ` + at)
	page.Eval(`new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame)).then(() => `+image+`)`, &after)
	if before == after {
		t.Error("the plot has another point and looks the same")
	}
	page.Wait(`document.querySelector("[data-feed]").children.length > 0`)
	page.Wait(`/^Live$/.test(document.querySelector("[data-state]").textContent)`)
}

// Times are in the time zone of the browser, on every page and in every answer.
func TestBrowserTimesAreInItsZone(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	server := httptest.NewServer(newSite(t, sample.New(time.Now)).handler)
	t.Cleanup(server.Close)
	page := browser.Start(t, chromium).Open(t, browser.View{Width: 1280, Height: 900})
	page.SetZone("Asia/Kathmandu") // 5:45 ahead
	check := func(what string) {
		t.Helper()
		var wrong []string
		page.Eval(`(document.body.innerText.match(/.*(UTC|\d{4}-\d\d-\d\d).*/g) ?? [])
			.concat([...document.querySelectorAll("time")].filter((at) => !at.textContent.includes(new Date(at.dateTime).toLocaleTimeString("en-GB", {timeZone: "Asia/Kathmandu"}))).map((at) => at.outerHTML))`, &wrong)
		if len(wrong) > 0 {
			t.Errorf("%s has times in another zone: %q", what, wrong)
		}
	}
	for _, path := range append(names, "history?range=30d", "history?range=1y", "./?zone=login") {
		page.Go(server.URL + "/limits/" + path)
		check(path)
	}
	page.Go(server.URL + "/limits/clients")
	page.Load(func() { page.Eval(`document.querySelector("form[action=explain]").requestSubmit()`, nil) })
	check("an explanation")
	page.Load(func() { page.Eval(`document.querySelector("form.decree[action=ban]").requestSubmit()`, nil) })
	check("what a ban is answered with")
}

// On a phone each client is one line, which its menu unfolds; nothing is lost with it.
func TestBrowserPhonesShowALinePerClient(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	server := httptest.NewServer(newSite(t, sample.New(time.Now)).handler)
	t.Cleanup(server.Close)
	b := browser.Start(t, chromium)
	widths := []int{360}
	if proof.IsOn() {
		widths = []int{320, 360, 400}
	}
	for _, width := range widths {
		page := b.Open(t, browser.View{Width: width, Height: 740})
		for _, path := range []string{"", "clients", "bans", "history"} {
			page.Go(server.URL + "/limits/" + path)
			var tall []string
			page.Eval(`[...document.querySelectorAll(".lines tbody tr")].filter((row) => row.offsetHeight > 48 || row.offsetHeight < 24).map((row) => row.offsetHeight + ": " + row.innerText)`, &tall)
			var rows int
			page.Eval(`document.querySelectorAll(".lines tbody tr").length`, &rows)
			if len(tall) > 0 || rows == 0 {
				t.Errorf("%q, %d wide: of %d rows these are more than a line: %q", path, width, rows, tall)
			}
		}
		page.Go(server.URL + "/limits/clients")
		page.Eval(`document.querySelector(".lines summary").click()`, nil)
		page.Wait(`/login[^]*5 of 5[^]*412[^]*blocked[^]*Explain[^]*Ban/.test(document.querySelector(".lines tbody tr").innerText)`)
	}
}

// On a phone the whole menu is visible in one line.
func TestBrowserMenuIsALineOnAPhone(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	server := httptest.NewServer(newSite(t, sample.New(time.Now)).handler)
	t.Cleanup(server.Close)
	b := browser.Start(t, chromium)
	for _, width := range []int{360, 390, 430} {
		page := b.Open(t, browser.View{Width: width, Height: 740})
		page.Go(server.URL + "/limits/health")
		var wrong []string
		page.Eval(`(() => { const nav = document.querySelector(".top nav"), items = [...nav.querySelectorAll("a")]
			return items.filter((a) => a.offsetTop !== items[0].offsetTop || a.getBoundingClientRect().right > innerWidth || nav.scrollWidth > nav.clientWidth).map((a) => a.innerText) })()`, &wrong)
		if len(wrong) > 0 {
			t.Errorf("%d wide: not in the line, or not to be seen: %q", width, wrong)
		}
	}
}

// Clicking a zone plots it, and lists its refusals.
func TestBrowserZonesHaveAPlot(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	server := httptest.NewServer(newSite(t, sample.New(time.Now)).handler)
	t.Cleanup(server.Close)
	page := browser.Start(t, chromium).Open(t, browser.View{Width: 1280, Height: 900})
	page.Go(server.URL + "/limits/")
	page.Load(func() { page.Eval(`document.querySelector("[data-zone-row=search] a").click()`, nil) })
	page.Wait(`document.querySelector("#h-plot").textContent === "Requests per second in search"`)
	page.Wait(`document.querySelector("[data-live]").dataset.last`)
	var other []string
	page.Eval(`[...document.querySelectorAll("[data-feed] li")].map((item) => item.innerText).filter((text) => !text.includes("search"))`, &other)
	if len(other) > 0 {
		t.Errorf("the list has refusals of other zones: %q", other)
	}
}

// Clicks have effects: a ban refuses, lifting it admits again, and the audit has both.
func TestBrowserBansAndLifts(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	service := sample.New(time.Now)
	server := httptest.NewServer(newSite(t, service).handler)
	t.Cleanup(server.Close)
	b := browser.Start(t, chromium)
	for _, v := range []browser.View{{Width: 1280, Height: 900}, {Width: 360, Height: 740, NoScript: true}} {
		page := b.Open(t, v)
		page.Go(server.URL + "/limits/bans")
		page.Eval(`document.querySelector("#ban-client").value = "192.0.2.200"`, nil)
		page.Load(func() { page.Eval(`document.querySelector("form[action=ban] button").click()`, nil) })
		if !service.Banned("192.0.2.200") {
			t.Error("nobody was banned")
		}
		page.Load(func() { page.Eval(`document.querySelector("form[action=unban] button").click()`, nil) })
		if service.Banned("192.0.2.200") {
			t.Error("the ban wasn't lifted")
		}
		acts := service.Acts()
		if acts[0].Action != "unban" || acts[1].Action != "ban" || acts[1].By != "maria" {
			t.Errorf("the audit says %+v", acts[:2])
		}
	}
}
