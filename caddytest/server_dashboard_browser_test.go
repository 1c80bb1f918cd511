package caddytest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// A user of a site bans somebody in the dashboard, and lifts that again: the next request is
// refused, the one after it passes, and the audit has both, with the user's name. Over plain
// HTTP, where browsers send less about where a form is from, this works as well. With PROOF it is
// done where they send it, too, and after a look at all pages.
func TestBrowserSteersCaddy(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	s := startCaddy(t, options(patient+trusting)+site(`
		handle_path /limits/* {
			`+basicAuth+`
			rate_limit_dashboard {
				writable
			}
		}
		rate_limit {
			zone all {
				per ip
				limit 100/1h
			}
		}
		respond hello`))
	client := "X-Forwarded-For: 203.0.113.77"
	s.wantPassed(3, 3, "/", client)
	b := browser.Start(t, chromium)
	hosts, pages := []string{"site.test"}, []string{""}
	if proof.IsOn() {
		hosts, pages = []string{"127.0.0.1", "site.test"}, []string{"", "clients", "history", "audit", "health", "explain", "bans"}
	}
	for _, host := range hosts {
		page := b.Open(t, browser.View{Width: 1280, Height: 900})
		for _, name := range pages {
			page.Go("http://alice:a%20secret@" + host + ":" + s.port + "/limits/" + name)
			if name == "" {
				page.Wait(`/^Live$/.test(document.querySelector("[data-state]").textContent)`)
			}
		}
		s.wantExplained(t, page, host)
		page.Go("http://" + host + ":" + s.port + "/limits/bans")
		page.Eval(`document.querySelector("#ban-client").value = "203.0.113.77"`, nil)
		page.Load(func() { page.Eval(`document.querySelector("form[action=ban] button").click()`, nil) })
		waitFor(t, "a refusal", func() bool { return s.get("/", client).status == http.StatusTooManyRequests })
		page.Load(func() { page.Eval(`document.querySelector("form[action=unban] button").click()`, nil) })
		waitFor(t, "a request that passes", func() bool { return s.get("/", client).status == http.StatusOK })
		acts, err := s.operator().Audit(t.Context(), operator.AuditQuery{})
		if err != nil || len(acts) < 2 || acts[0].Action != "unban" || acts[1].Action != "ban" || acts[0].By != "alice" || acts[1].By != "alice" {
			t.Errorf("the audit says %+v, %v", acts, err)
		}
		if troubles := page.Troubles(); len(troubles) > 0 {
			t.Errorf("the browser complains: %q", troubles)
		}
	}
	if logs := s.logs(); strings.Contains(logs, "203.0.113.77") {
		t.Error("the log names the client")
	}
}

// wantExplained looks at who is listed: what a row's button explains, and what revealing shows.
func (s *server) wantExplained(t *testing.T, page *browser.Page, host string) {
	t.Helper()
	const client, network = "203.0.113.77", "203.0.113.0/24"
	var text string
	page.Go("http://" + host + ":" + s.port + "/limits/clients")
	page.Eval(`document.documentElement.outerHTML`, &text)
	if !strings.Contains(text, network) || strings.Contains(text, client) {
		t.Errorf("the list doesn't have the client as a network only:\n%s", text)
	}
	row := `[...document.querySelectorAll("tr")].find((row) => row.textContent.includes("` + network + `"))`
	page.Load(func() { page.Eval(row+`.querySelector("form[action=explain]").requestSubmit()`, nil) })
	page.Eval(`document.documentElement.outerHTML`, &text)
	if !strings.Contains(text, network) || strings.Contains(text, client) || !strings.Contains(text, "verdict ok") || !strings.Contains(text, "100/1h") {
		t.Errorf("the answer about the client is:\n%s", text)
	}
	page.Go("http://" + host + ":" + s.port + "/limits/clients")
	page.Load(func() { page.Eval(`document.querySelector("button[name=reveal]").click()`, nil) })
	page.Eval(`document.documentElement.outerHTML`, &text)
	acts, err := s.operator().Audit(t.Context(), operator.AuditQuery{})
	if !strings.Contains(text, client) || err != nil || acts[0].Action != "reveal" || acts[0].By != "alice" {
		t.Errorf("revealed, the audit says %+v, %v, and the list is:\n%s", acts, err, text)
	}
}
