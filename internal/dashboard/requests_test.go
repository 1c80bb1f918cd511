package dashboard_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
)

// noting notes what is asked of a service.
type noting struct {
	*sample.Service
	refusals operator.RefusalsQuery
}

func (n *noting) Refusals(ctx context.Context, q operator.RefusalsQuery) (operator.Refusals, error) {
	n.refusals = q
	return n.Service.Refusals(ctx, operator.RefusalsQuery{Zone: q.Zone, Path: q.Path})
}

var linkPattern = regexp.MustCompile(`href="(requests\?[^"]*)"`)

// links returns the links of a page to requests, by what a part of them says.
func links(body, part string) (found []string) {
	for _, link := range linkPattern.FindAllStringSubmatch(body, -1) {
		if text := html.UnescapeString(link[1]); strings.Contains(text, part) {
			found = append(found, text)
		}
	}
	return found
}

// From a path to its clients, from a client to its paths and what is known of it, and back to all; no URL names a client.
func TestFromPathsToClientsAndBack(t *testing.T) {
	service := &noting{Service: sample.New(time.Now)}
	s := newSite(t, service.Service, withService(service))
	path := links(s.get(""), "path=%2Flogin")
	if len(path) != 1 {
		t.Fatalf("the first page has the links %v to a path, want one", path)
	}
	body := s.get(path[0])
	if service.refusals != (operator.RefusalsQuery{Path: "/login"}) {
		t.Errorf("asked for %+v", service.refusals)
	}
	clients := links(body, "client=")
	if len(clients) != 1 || !strings.Contains(clients[0], "path=%2Flogin") || strings.Contains(clients[0], "3fa9c1") || strings.Contains(body, `id="h-path"`) {
		t.Fatalf("the page of a path has the links %v to clients:\n%s", clients, body)
	}
	body = s.get(clients[0])
	if service.refusals != (operator.RefusalsQuery{Path: "/login", Client: "tag:3fa9c1"}) {
		t.Errorf("asked for %+v", service.refusals)
	}
	if strings.Contains(body, `id="h-client"`) || len(links(body, "country=DE")) != 1 {
		t.Error("the page of a client lists clients, or doesn't lead to its country")
	}
	without := links(body, "client=")
	if len(links(body, "path=")) == 0 || len(without) == 0 {
		t.Error("the page of a client can't be left")
	}
	s.user = "jon" // another user's link
	s.wantPost(400, httptest.NewRequest(http.MethodGet, "https://example.com/limits/"+clients[0], nil))
	s.user = "maria"
	explained := s.wantPost(200, s.form("explain", "client", "192.0.2.9"))
	back := links(explained, "client=")
	if len(back) != 1 || strings.Contains(back[0], "192") {
		t.Fatalf("an explanation has the links %v to requests", back)
	}
	if body := s.get(back[0]); service.refusals.Client != "192.0.2.9" || strings.Contains(body, "192.0.2.9") || strings.Contains(body, "3fa9c1") {
		t.Errorf("asked for %+v, or the page shows the address or a tag", service.refusals)
	}
}

// The page of a network, a country or a provider bans all of its clients.
func TestGroupsAreBanned(t *testing.T) {
	service := sample.New(time.Now)
	s := newSite(t, service)
	for query, want := range map[string]string{
		"network=203.0.113.0/24": "203.0.113.0/24", "country=DE": "country:DE", "provider=AS64496": "asn:64496",
		"path=/login": "", "agent=curl": "",
	} {
		found := regexp.MustCompile(`(?s)action="ban".*?name="client" value="([^"]*)"`).FindStringSubmatch(s.get("requests?" + query))
		if len(found) == 0 {
			if want != "" {
				t.Errorf("%s: nothing bans %s", query, want)
			}
			continue
		}
		if _, err := operator.ParseTarget(found[1]); found[1] != want || err != nil {
			t.Errorf("%s: the form bans %q, want %q (%v)", query, found[1], want, err)
		}
		s.wantPost(200, s.form("ban", "client", found[1], "for", "3600"))
		if act := service.Acts()[0]; act.Action != string(operator.Ban) {
			t.Errorf("%s: the form has done %+v", query, act)
		}
	}
}

// A search finds a client by any of its names, and otherwise what has the text in it.
func TestSearch(t *testing.T) {
	service := &noting{Service: sample.New(time.Now)}
	s := newSite(t, service.Service, withService(service))
	for _, name := range []string{"192.0.2.9", "api-key:globex", "2001:db8::/48"} {
		if body := s.wantPost(200, s.form("search", "client", name)); !strings.Contains(body, "next request") {
			t.Errorf("%s isn't explained:\n%s", name, body)
		}
	}
	if act := service.Acts()[0]; act.Action == "" {
		t.Error("no act")
	}
	for _, text := range []string{"globex", "abcdefghij", "a b", "/login", "100%&=?", "<img>"} { // the second looks like a reference
		w := s.ask(s.form("search", "client", text))
		if where := w.Header().Get("Location"); w.Code != http.StatusSeeOther || !strings.HasPrefix(where, "requests?text=") || strings.Contains(where, url.QueryEscape(text)) {
			t.Errorf("%s is answered with %d and %q", text, w.Code, where)
		}
		body := s.get(w.Header().Get("Location"))
		if service.refusals.Text != text || !strings.Contains(body, html.EscapeString(text)) {
			t.Errorf("%s: asked for %+v", text, service.refusals)
		}
		if text == "globex" && (!strings.Contains(body, "Clients in memory") || !strings.Contains(body, "804 of 1")) {
			t.Errorf("the client isn't found:\n%s", body)
		}
	}
	if body := s.wantPost(400, s.form("search", "client", " ")); !strings.Contains(body, "Type a client") {
		t.Errorf("nothing typed: got\n%s", body)
	}
	s.wantPost(405, httptest.NewRequest(http.MethodGet, "https://example.com/limits/search?client=a", nil))
	// The handle of a row isn't readable as a text.
	handle := handlePattern.FindStringSubmatch(s.get("clients"))[1]
	if body := s.get("requests?text=" + handle); strings.Contains(body, "203.0.113.77") {
		t.Error("a handle is shown as a text")
	}
}

// What was typed is still there after a mistake, in a form that can be sent again.
func TestMistakesKeepTheForm(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	body := s.wantPost(400, s.form("raise", "client", "203.0.113.300", "factor", "5x", "zone", "login", "for", "604800", "reason", `why "not"`, "force", "1"))
	for _, want := range []string{`action="raise"`, `value="203.0.113.300"`, `value="5x"`, `value="login"`, `<option value="604800" selected>`, `value="why &#34;not&#34;"`, `name="force" value="1" checked`} {
		if !strings.Contains(body, want) {
			t.Errorf("the form lacks %s:\n%s", want, body)
		}
	}
	body = s.wantPost(400, s.form("ban", "client", "nobody", "for", ""))
	if !strings.Contains(body, `<option value="" selected>`) || strings.Contains(body, `<option value="86400" selected>`) {
		t.Errorf("the form has another time:\n%s", body)
	}
	body = s.wantPost(400, s.form("explain", "client", "nobody", "method", "POST", "url", "https://a.example/x"))
	if !strings.Contains(body, `value="nobody"`) || !strings.Contains(body, "<option selected>POST</option>") || !strings.Contains(body, `value="https://a.example/x"`) {
		t.Errorf("the question isn't kept:\n%s", body)
	}
	handle := handlePattern.FindStringSubmatch(s.get("clients"))[1]
	body = s.wantPost(400, s.form("ban", "handle", handle, "reason", strings.Repeat("x", operator.MaxReason+1)))
	if !strings.Contains(body, `name="handle" value="`+handle+`"`) || strings.Contains(body, "203.0.113.77") {
		t.Errorf("the client of the form is lost, or shown:\n%s", body)
	}
	// A form that another page sent comes back to nobody.
	if body := s.wantPost(403, formRequest("ban", url.Values{"client": {"203.0.113.9"}, "token": {"x"}})); strings.Contains(body, `action="ban"`) {
		t.Error("a forged form is offered")
	}
	readOnly := newSite(t, sample.New(time.Now), func(o *dashboard.Options) { o.Writable = false })
	if body := readOnly.wantPost(403, readOnly.form("ban", "client", "nobody")); strings.Contains(body, `action="ban"`) {
		t.Error("a dashboard that reads only offers a ban")
	}
}

// crowded is a service with many keys.
type crowded struct {
	*sample.Service
	keys int
}

func (c crowded) Keys(_ context.Context, q operator.KeysQuery) (keys []operator.Key, _ error) {
	for i := range min(c.keys, q.N, operator.MaxItems) {
		keys = append(keys, operator.Key{Zone: "z", Limit: "l", Text: fmt.Sprintf("client-%d-", i), Client: fmt.Sprintf("key:client-%d-", i), Used: 1, Amount: 5})
	}
	return keys, nil
}

// Pages of clients list each client once, however many there are.
func TestPagesOfClients(t *testing.T) {
	for _, n := range []int{0, 1, 49, 50, 51, 100, 101, 999, 1000, 5000} {
		s := newSite(t, sample.New(time.Now), withService(crowded{sample.New(time.Now), n}))
		next := regexp.MustCompile(`href="([^"]*)" rel="next"`)
		seen, at := 0, "clients?zone=&by=refused"
		for pages := 0; at != ""; pages++ {
			body := s.get(at)
			if pages > 0 && !strings.Contains(body, `rel="prev"`) || !strings.Contains(html.UnescapeString(body), "by=used") && n > 0 {
				t.Fatalf("%d clients: %s can't be left", n, at)
			}
			for strings.Contains(body, fmt.Sprintf("client-%d-<", seen)) {
				seen++
			}
			at = ""
			if found := next.FindStringSubmatch(body); found != nil {
				at = html.UnescapeString(found[1])
			}
		}
		if seen != min(n, operator.MaxItems) {
			t.Errorf("of %d clients, %d are listed", n, seen)
		}
	}
	s := newSite(t, sample.New(time.Now), withService(crowded{sample.New(time.Now), 60}))
	for _, page := range []string{"-1", "0", "x", "99999999999999999999", "7"} {
		s.get("clients?page=" + page)
	}
}

// What was done is marked in plots, at its time; looks aren't.
func TestMarksInPlots(t *testing.T) {
	now := time.Now()
	s := newSite(t, sample.New(func() time.Time { return now }), func(o *dashboard.Options) { o.Now = func() time.Time { return now } })
	for page, want := range map[string]int{"history?range=1h": 2, "history?range=24h": 4, "history?range=7d": 6} {
		body := html.UnescapeString(s.get(page))
		data := body[strings.Index(body, "data-marks="):strings.Index(body, "data-per=")]
		if got := strings.Count(data, `",`) + strings.Count(data, `"]`) - strings.Count(data, `"],`); strings.Contains(data, "Looked") || strings.Count(data, "[") != want+1 || strings.Contains(data, "198.51.100.81") {
			t.Errorf("%s: got %s (%d), want %d marks", page, data, got, want)
		}
		if got := strings.Count(body[strings.Index(body, `class="marked"`)-1000:strings.Index(body, `class="marked"`)], "V240"); got == 0 {
			t.Errorf("%s: the drawing has no marks", page)
		}
	}
}

// A drag zooms into a plot, a live one too, and the button, the keys and a double click lead back.
func TestBrowserPlotsZoom(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	server := httptest.NewServer(newSite(t, sample.New(time.Now)).handler)
	t.Cleanup(server.Close)
	page := browser.Start(t, chromium).Open(t, browser.View{Width: 1280, Height: 900})
	for _, path := range []string{"", "history?range=24h"} {
		page.Go(server.URL + "/limits/" + path)
		page.Wait(`document.querySelector(".u-over")`)
		var tracked bool
		page.Eval(`document.querySelector(".whole").checkVisibility()`, &tracked)
		if tracked {
			t.Errorf("%q is zoomed at first", path)
		}
		const key = `document.querySelector(".canvas canvas").dispatchEvent(new KeyboardEvent("keydown", {key: KEY, bubbles: true}))`
		press := func(name string) { page.Eval(strings.Replace(key, "KEY", `"`+name+`"`, 1), nil) }
		press("+")
		page.Wait(`document.querySelector(".whole").checkVisibility()`)
		press("ArrowLeft")
		press("0")
		page.Wait(`!document.querySelector(".whole").checkVisibility()`)
		page.Eval(`(() => {
			const over = document.querySelector(".u-over"), box = over.getBoundingClientRect();
			const at = (type, x) => over.dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: box.left + x, clientY: box.top + 20, button: 0, buttons: 1, movementX: 9}));
			const away = (type, x) => document.dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: box.left + x, clientY: box.top + 20, button: 0, movementX: 9}));
			over.dispatchEvent(new MouseEvent("mouseenter")); at("mousemove", 100); at("mousedown", 100); at("mousemove", 300); away("mousemove", 300); away("mouseup", 300);
		})()`, nil)
		page.Wait(`document.querySelector(".whole").checkVisibility()`)
		if path == "" { // it stays zoomed while the plot moves on
			const last = `document.querySelector("[data-live]").dataset.last`
			page.Wait(last)
			var before string
			page.Eval(last, &before)
			page.Wait(last + ` > ` + before)
			page.Wait(`document.querySelector(".whole").checkVisibility()`)
		}
		page.Eval(`document.querySelector(".whole").click()`, nil)
		page.Wait(`!document.querySelector(".whole").checkVisibility()`)
	}
	for _, trouble := range page.Troubles() {
		t.Error(trouble)
	}
}

// composite is a service with a refusal of a key that has an address in it.
type composite struct{ *sample.Service }

func (composite) Refusals(context.Context, operator.RefusalsQuery) (operator.Refusals, error) {
	const text = "203.0.113.82|GET"
	return operator.Refusals{
		Sampled: 1, Latest: []operator.Refused{{At: time.Now(), Zone: "z", Limit: "l", Text: text, Client: "key:" + text, Tag: "abcdef", Times: 1}},
		Clients: []operator.RefusedShare{{Text: text, Client: "key:" + text, Tag: "abcdef", Refused: 1}},
	}, nil
}

// An address inside a key, as of a zone that counts by address and method, is on no page.
func TestAddressesInsideKeysAreMasked(t *testing.T) {
	s := newSite(t, sample.New(time.Now), withService(composite{sample.New(time.Now)}))
	for _, name := range []string{"", "requests"} {
		if body := s.get(name); strings.Contains(body, "203.0.113.82") || !strings.Contains(body, "203.0.113.0/24|GET") {
			t.Errorf("%q has the address, or not the key", name)
		}
	}
}

// Who has typed an address doesn't learn its tag from the rule about it, nor by the rule's row.
func TestRulesOfTypedAddressesHaveNoTag(t *testing.T) {
	s := newSite(t, sample.New(time.Now), withService(referring{sample.New(time.Now)}))
	body := s.get("bans")
	row := body[strings.Index(body, "scraper, see ticket"):]
	handle := regexp.MustCompile(`name="handle" value="([^"]+)"`).FindStringSubmatch(row)
	if handle == nil {
		t.Fatal("the row has no handle")
	}
	if explained := s.wantPost(200, s.form("explain", "handle", handle[1])); strings.Contains(explained, "3fa9c1") || strings.Contains(explained, "203.0.113.77") {
		t.Error("the explanation of a typed client has its tag, or its address")
	}
}

// Lifting and resetting by an address tell whether there was something, so they are bounded as questions are.
func TestResetsByAddressAreBounded(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	codes := make(map[int]int)
	for i := range 70 {
		codes[s.ask(s.form("reset", "client", fmt.Sprintf("203.0.113.%d", i))).Code]++
	}
	if codes[http.StatusTooManyRequests] < 9 {
		t.Errorf("got the answers %v, want 60 looks", codes)
	}
}

// strange is a service with clients whose names may mislead.
type strange struct{ *sample.Service }

func (strange) Keys(context.Context, operator.KeysQuery) (keys []operator.Key, err error) {
	for i, client := range []string{"key:acme", "api-key:acme", "key:203.0.113.82", "key:vic\u202etim\u200b", "key:" + strings.Repeat("x", 57), "203.0.113.5", "203.0.113.250", "2001:db8:1:2::/64"} {
		text := strings.TrimPrefix(strings.TrimPrefix(client, "key:"), "api-key:")
		keys = append(keys, operator.Key{Zone: "z", Limit: "l", Text: text, Client: client, Tag: fmt.Sprintf("abcde%x", i), Amount: 1})
	}
	return keys, nil
}

// A client's text shows what it is, and hides nothing. Handles of addresses have one length.
func TestNamesMisleadNobody(t *testing.T) {
	body := newSite(t, sample.New(time.Now), withService(strange{sample.New(time.Now)})).get("clients")
	for _, shown := range []string{">key:acme<", ">api-key:acme<", ">key:203.0.113.0/24<", `>key:vic\u202etim\u200b<`} {
		if !strings.Contains(body, shown) {
			t.Errorf("the page doesn't show %s", shown)
		}
	}
	if strings.ContainsAny(body, "\u202e\u200b") {
		t.Error("the page has characters that nobody sees")
	}
	lengths := make(map[int]int)
	for _, handle := range handlePattern.FindAllStringSubmatch(body, -1) {
		lengths[len(handle[1])]++
	}
	if len(lengths) != 1 {
		t.Errorf("handles have the lengths %v", lengths)
	}
}

// One user's looks count on all dashboards, and over reloads.
func TestLooksAreSharedByDashboards(t *testing.T) {
	var shared dashboard.Looks
	codes := make(map[int]int)
	for range 4 {
		s := newSite(t, sample.New(time.Now), func(o *dashboard.Options) { o.Looks = &shared })
		for i := range 20 {
			codes[s.ask(s.form("explain", "client", fmt.Sprintf("203.0.113.%d", i))).Code]++
		}
	}
	if codes[http.StatusTooManyRequests] < 19 {
		t.Errorf("got the answers %v, want 60 looks", codes)
	}
}

// The sample may lack requests like those that are asked for: the page doesn't say that none came.
func TestRequestsThatTheSampleLacks(t *testing.T) {
	s := newSite(t, sample.Empty(time.Now))
	for query, want := range map[string]string{"": "No requests came", "?path=%2Fx": "No sampled requests like that came"} {
		if body := s.get("requests" + query); !strings.Contains(body, want) {
			t.Errorf("the page %q lacks %q:\n%s", query, want, body)
		}
	}
}
