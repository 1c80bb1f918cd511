package dashboard_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
)

var names = []string{"", "requests", "clients", "bans", "history", "audit", "health", "explain"}

// site is a dashboard for requests like a browser's.
type site struct {
	t       *testing.T
	service *sample.Service
	handler http.Handler
	user    string
}

func newSite(t *testing.T, service *sample.Service, change ...func(*dashboard.Options)) *site {
	t.Helper()
	s := &site{t: t, service: service, user: "maria"}
	o := dashboard.Options{Service: service, Writable: true, User: func(*http.Request) string { return s.user }, Report: func(err error) { t.Error(err) }}
	for _, f := range change {
		f(&o)
	}
	s.handler = dashboard.New(o)
	return s
}

func (s *site) ask(r *http.Request) *httptest.ResponseRecorder {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

func (s *site) get(path string) string {
	s.t.Helper()
	w := s.ask(httptest.NewRequest(http.MethodGet, "https://example.com/limits/"+path, nil))
	if w.Code != http.StatusOK {
		s.t.Fatalf("GET %s: got %d, want 200:\n%s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

var tokenPattern = regexp.MustCompile(`name="token" value="([^"]+)"`)

func (s *site) token() string {
	s.t.Helper()
	found := tokenPattern.FindStringSubmatch(s.get("explain"))
	if found == nil {
		s.t.Fatal("the page has no form with a token")
	}
	return found[1]
}

// form returns a POST like that of the dashboard's page.
func (s *site) form(path string, fields ...string) *http.Request {
	s.t.Helper()
	values := url.Values{"token": {s.token()}}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	return formRequest(path, values)
}

func formRequest(path string, values url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://example.com/limits/"+path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

func (s *site) wantPost(status int, r *http.Request) string {
	s.t.Helper()
	w := s.ask(r)
	if w.Code != status {
		s.t.Fatalf("%s %s: got %d, want %d:\n%s", r.Method, r.URL, w.Code, status, w.Body)
	}
	return w.Body.String()
}

func TestPages(t *testing.T) {
	for _, service := range []*sample.Service{sample.New(time.Now), sample.Empty(time.Now)} {
		for _, writable := range []bool{true, false} {
			s := newSite(t, service, func(o *dashboard.Options) { o.Writable = writable })
			for _, name := range names {
				body := s.get(name)
				if !strings.Contains(body, "<h1") || !strings.HasSuffix(strings.TrimSpace(body), "</html>") {
					t.Errorf("%q is no whole page:\n%s", name, body)
				}
			}
		}
	}
}

// Links must work below any path, so they don't begin with a slash.
func TestLinksAreRelative(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	for _, name := range names {
		for _, found := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(s.get(name), -1) {
			link := found[1]
			if strings.HasPrefix(link, "#") {
				continue
			}
			if strings.HasPrefix(link, "/") || strings.Contains(link, ":") {
				t.Errorf("%q has the link %q, want a relative one", name, link)
			}
			link, _, _ = strings.Cut(strings.ReplaceAll(link, "&amp;", "&"), "#")
			w := s.ask(httptest.NewRequest(http.MethodGet, "https://example.com/a/b/"+link, nil))
			if w.Code != http.StatusOK && w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%q has the link %q, which is answered with %d", name, link, w.Code)
			}
		}
	}
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	nonces := make(map[string]bool)
	for _, path := range append(names, "nowhere", "style.css", "live.js", "ban") {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			h := s.ask(httptest.NewRequest(method, "https://example.com/limits/"+path, nil)).Header()
			policy := h.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "script-src 'nonce-"} {
				if !strings.Contains(policy, want) {
					t.Errorf("%s %q: the policy %q lacks %q", method, path, policy, want)
				}
			}
			if strings.Contains(policy, "unsafe") || nonces[policy] {
				t.Errorf("%s %q: the policy %q is weak, or has been used before", method, path, policy)
			}
			nonces[policy] = true
			for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
				if got := h.Get(name); got != want {
					t.Errorf("%s %q: got %s %q, want %q", method, path, name, got, want)
				}
			}
		}
	}
}

// All texts from clients stay texts.
func TestStoredMarkup(t *testing.T) {
	const evil = `</script><img src=x onerror=alert(1)>"'` + "`{{7}}" + `<!--`
	service := sample.New(time.Now)
	service.Add(evil)
	s := newSite(t, service)
	bodies := map[string]string{}
	for _, name := range names {
		bodies[name] = s.get(name)
	}
	bodies["explained"] = s.wantPost(200, s.form("explain", "client", "key:"+evil, "url", `https://example.com/"><script>alert(1)</script>`))
	bodies["banned"] = s.wantPost(200, s.form("ban", "client", "key:"+evil, "reason", evil))
	bodies["error"] = s.ask(s.form("ban", "client", evil)).Body.String()
	bodies["missing"] = s.ask(httptest.NewRequest(http.MethodGet, "/%3Cimg%20src=x%3E", nil)).Body.String()
	bodies["query"] = s.get("clients?zone=" + url.QueryEscape(evil) + "&by=" + url.QueryEscape(evil))
	bodies["range"] = s.get("history?zone=" + url.QueryEscape(evil) + "&range=" + url.QueryEscape(evil))
	for name, body := range bodies {
		if strings.Contains(body, "<img") || strings.Contains(body, "alert(1)</script>") || strings.Contains(body, "<!-") {
			t.Errorf("%q has markup that somebody chose:\n%s", name, body)
		}
		if n := strings.Count(body, "<script"); n != 2 {
			t.Errorf("%q has %d scripts, want 2", name, n)
		}
	}
}

// No page contains an address that it doesn't show.
func TestAddressesAreNetworks(t *testing.T) {
	service := sample.New(time.Now)
	s := newSite(t, service)
	addresses := regexp.MustCompile(`203\.0\.113\.77|198\.51\.100\.(24|81|201)|192\.0\.2\.(9|146)|2001:db8:[0-9a-f]+:[0-9]`)
	for _, name := range names {
		if found := addresses.FindString(s.get(name)); found != "" {
			t.Errorf("%q shows %s", name, found)
		}
	}
	body := s.wantPost(200, s.form("", "reveal", "1"))
	if !strings.Contains(body, "203.0.113.77") || !strings.Contains(body, "Hide addresses") {
		t.Error("the revealed page doesn't show its addresses")
	}
	if act := service.Acts()[0]; act.Action != "reveal" || act.By != "maria" || act.Target != "blocked" {
		t.Errorf("the audit says %+v, want a reveal of blocked by maria", act)
	}
	if addresses.MatchString(s.get("")) {
		t.Error("the next page shows addresses, too")
	}
	if body := s.wantPost(400, s.form("health", "reveal", "1")); !strings.Contains(body, "no addresses") {
		t.Errorf("revealing health: got\n%s", body)
	}
}

// A list is not revealed if the audit can't record that.
func TestRevealsAreNotedFirst(t *testing.T) {
	service := sample.New(time.Now)
	var reported []error
	s := newSite(t, service, func(o *dashboard.Options) { o.Report = func(err error) { reported = append(reported, err) } })
	r := s.form("clients", "reveal", "1")
	service.Fail(errors.New("disk full of 192.0.2.9"))
	if body := s.wantPost(500, r); strings.Contains(body, "192.0.2") || strings.Contains(body, "203.0.113.77") {
		t.Errorf("the page shows addresses, or the error:\n%s", body)
	}
	if len(reported) != 1 || !strings.Contains(reported[0].Error(), "disk full") {
		t.Errorf("got the reports %v, want one of the disk", reported)
	}
}

var handlePattern = regexp.MustCompile(`action="explain"><input type="hidden" name="token" value="[^"]*"><input type="hidden" name="handle" value="([^"]+)"`)

// A row names its client by a handle, which works for its user only.
func TestHandles(t *testing.T) {
	service := sample.New(time.Now)
	s := newSite(t, service)
	found := handlePattern.FindStringSubmatch(s.get("clients"))
	if found == nil {
		t.Fatal("there is no handle")
	}
	handle := found[1]
	body := s.wantPost(200, s.form("explain", "handle", handle))
	if !strings.Contains(body, "429") || !strings.Contains(body, "203.0.113.0/24") || strings.Contains(body, "203.0.113.77") {
		t.Errorf("explaining the first row: got\n%s", body)
	}
	s.wantPost(200, s.form("reset", "handle", handle, "zone", "login"))
	if act := service.Acts()[0]; act.Action != "reset" || act.Target != "203.0.113.77" || act.By != "maria" {
		t.Errorf("the audit says %+v, want a reset of 203.0.113.77 by maria", act)
	}
	s.user = "jon"
	s.wantPost(400, s.form("explain", "handle", handle))
	s.wantPost(400, s.form("explain", "handle", "bm9uc2Vuc2U"))
}

func TestActions(t *testing.T) {
	service := sample.New(time.Now)
	s := newSite(t, service)
	s.wantPost(200, s.form("ban", "client", "192.0.2.200", "for", "3600", "reason", "noisy"))
	if !service.Banned("192.0.2.200") {
		t.Error("nobody was banned")
	}
	if body := s.wantPost(200, s.form("explain", "client", "192.0.2.200")); !strings.Contains(body, "Refused") {
		t.Errorf("the banned client: got\n%s", body)
	}
	s.wantPost(200, s.form("unban", "client", "192.0.2.200"))
	if service.Banned("192.0.2.200") {
		t.Error("the ban wasn't lifted")
	}
	for _, wrong := range []*http.Request{
		s.form("ban", "client", "nobody"),
		s.form("ban", "client", "192.0.2.1", "for", "-1"),
		s.form("ban", "client", "192.0.2.1", "for", "99999999999"),
		s.form("ban", "client", "192.0.2.1", "reason", strings.Repeat("x", operator.MaxReason+1)),
	} {
		s.wantPost(400, wrong)
	}
	if got := len(service.Acts()); got != len(sample.New(time.Now).Acts())+2 {
		t.Errorf("the audit has %d acts, of which two are new", got)
	}
}

// fromWhere notes the address from which an action comes.
type fromWhere struct {
	*sample.Service
	from netip.Addr
}

func (f *fromWhere) Do(ctx context.Context, action operator.Action, o operator.Command) (operator.Done, error) {
	f.from = o.From
	return f.Service.Do(ctx, action, o)
}

// The service learns the address of who bans, which it doesn't ban without a question.
func TestActionsHaveTheirAddress(t *testing.T) {
	service := &fromWhere{Service: sample.New(time.Now)}
	own := netip.MustParseAddr("192.0.2.9")
	s := newSite(t, service.Service, func(o *dashboard.Options) {
		o.Service, o.Address = service, func(*http.Request) netip.Addr { return own }
	})
	s.wantPost(200, s.form("ban", "client", "192.0.2.200", "for", "3600"))
	if service.from != own {
		t.Errorf("the ban comes from %v, want %v", service.from, own)
	}
	if body := s.get("bans"); !strings.Contains(body, "my own address, or a network wider than /8") {
		t.Error("the page Bans has no box for one's own address")
	}
}

func TestReadOnly(t *testing.T) {
	service := sample.New(time.Now)
	s := newSite(t, service, func(o *dashboard.Options) { o.Writable = false })
	before := len(service.Acts())
	for _, action := range []string{"ban", "unban", "allow", "disallow", "raise", "unraise", "reset"} {
		s.wantPost(403, s.form(action, "client", "192.0.2.1", "for", "60"))
		for _, name := range names {
			if strings.Contains(s.get(name), `action="`+action+`"`) {
				t.Errorf("%q offers %s", name, action)
			}
		}
	}
	if len(service.Acts()) != before {
		t.Errorf("something was done: %+v", service.Acts()[0])
	}
	s.wantPost(200, s.form("explain", "client", "192.0.2.1"))
}

// Other sites, other users and other keys can't make the user's browser execute anything.
func TestForgedForms(t *testing.T) {
	service := sample.New(time.Now)
	s := newSite(t, service)
	post := func(change func(*http.Request, url.Values)) *http.Request {
		values := url.Values{"token": {s.token()}, "client": {"192.0.2.200"}, "for": {"60"}}
		r := formRequest("ban", values)
		change(r, values)
		if r.Body == http.NoBody {
			return r
		}
		fresh := formRequest("ban", values)
		fresh.Header = r.Header
		fresh.Host = r.Host
		return fresh
	}
	other := base64.RawURLEncoding.EncodeToString(make([]byte, 48)) // of no key
	for name, r := range map[string]*http.Request{
		"cross-site": post(func(r *http.Request, _ url.Values) { r.Header.Set("Sec-Fetch-Site", "cross-site") }),
		"same-site":  post(func(r *http.Request, _ url.Values) { r.Header.Set("Sec-Fetch-Site", "same-site") }),
		"other origin": post(func(r *http.Request, _ url.Values) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "https://evil.example")
		}),
		"null origin":   post(func(r *http.Request, _ url.Values) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") }),
		"no token":      post(func(_ *http.Request, v url.Values) { v.Del("token") }),
		"empty token":   post(func(_ *http.Request, v url.Values) { v.Set("token", "") }),
		"cut token":     post(func(_ *http.Request, v url.Values) { v.Set("token", s.token()[:20]) }),
		"other key":     post(func(_ *http.Request, v url.Values) { v.Set("token", other) }),
		"multipart":     post(func(r *http.Request, _ url.Values) { r.Header.Set("Content-Type", "multipart/form-data; boundary=x") }),
		"plain":         post(func(r *http.Request, _ url.Values) { r.Header.Set("Content-Type", "text/plain") }),
		"other's token": post(func(_ *http.Request, v url.Values) { s.user = "jon"; v.Set("token", s.token()); s.user = "maria" }),
	} {
		if w := s.ask(r); w.Code != http.StatusForbidden && w.Code != http.StatusUnsupportedMediaType {
			t.Errorf("%s: got %d, want 403 or 415", name, w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "https://example.com/limits/ban?client=192.0.2.200&token="+s.token(), nil)
	s.wantPost(405, r)
	if service.Banned("192.0.2.200") {
		t.Error("a forged form has banned somebody")
	}
	s.wantPost(200, post(func(r *http.Request, _ url.Values) {
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set("Origin", "https://example.com")
	}))
}

// endless is a body that counts the bytes read from it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	if e.read >= 10<<20 {
		return 0, io.EOF
	}
	e.read += len(p)
	copy(p, bytes.Repeat([]byte("a"), len(p)))
	return len(p), nil
}

func TestLargeBodies(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	for _, length := range []int64{10 << 20, -1} {
		body := new(endless)
		r := httptest.NewRequest(http.MethodPost, "https://example.com/limits/explain", body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.ContentLength = length
		s.wantPost(413, r)
		if body.read > 2*operator.MaxBody {
			t.Errorf("%d bytes of the body were read", body.read)
		}
	}
}

// A thousand browsers want live updates: few get them, and when those are gone, others do.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := sample.New(time.Now)
		s := newSite(t, service)
		open := func() (*http.Request, func()) {
			r := httptest.NewRequest(http.MethodGet, "https://example.com/limits/events", nil)
			ctx, cancel := withCancel(r)
			return ctx, cancel
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		codes := make(map[int]int)
		var cancels []func()
		for range 1000 {
			r, cancel := open()
			cancels = append(cancels, cancel)
			all.Go(func() {
				code := s.ask(r).Code
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		synctest.Wait()
		if service.Streams() != 16 {
			t.Errorf("%d streams are open, want 16", service.Streams())
		}
		for _, cancel := range cancels {
			cancel()
		}
		all.Wait()
		synctest.Wait()
		if codes[200] != 16 || codes[429] != 984 || service.Streams() != 0 {
			t.Errorf("got the answers %v and %d open streams, want 16 with 200, 984 with 429, and none", codes, service.Streams())
		}
		r, cancel := open()
		all.Go(func() { s.ask(r) })
		time.Sleep(10 * time.Second) // in virtual time
		if service.Streams() != 1 {
			t.Error("afterwards nobody gets a stream")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if service.Streams() != 0 {
			t.Error("a stream lasts longer than an hour")
		}
		cancel()
		all.Wait()
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, sample.New(time.Now))
		r, cancel := withCancel(httptest.NewRequest(http.MethodGet, "https://example.com/limits/events", nil))
		w := httptest.NewRecorder()
		var done sync.WaitGroup
		done.Go(func() { s.handler.ServeHTTP(w, r) })
		time.Sleep(3500 * time.Millisecond) // in virtual time
		cancel()
		done.Wait()
		synctest.Wait()
		if got := strings.Count(w.Body.String(), `data: {"totals":`); got != 4 || w.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("got %d totals in 3.5 s, want 4:\n%s", got, w.Body)
		}
	})
	s := newSite(t, sample.New(time.Now))
	r, cancel := withCancel(httptest.NewRequest(http.MethodGet, "https://example.com/limits/events", nil))
	cancel()
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	s.wantPost(403, r)
}

// full is a service with a key that has used all of its limit, and isn't blocked yet.
type full struct{ *sample.Service }

func (full) Keys(context.Context, operator.KeysQuery) ([]operator.Key, error) {
	return []operator.Key{{Zone: "pages", Limit: "pages", Units: "5/1m", Text: "203.0.113.9", Client: "203.0.113.9", Used: 5, Amount: 5}}, nil
}

// A bar is red at 100 %, and a limit with the name of its zone is shown by its units.
func TestFullBarsAreRed(t *testing.T) {
	s := newSite(t, sample.New(time.Now), withService(full{sample.New(time.Now)}))
	body := s.get("clients")
	if !strings.Contains(body, `<span class="used no"><b>100 %</b> <span class="muted">5 of 5</span><svg class="bar no"`) {
		t.Errorf("the bar isn't red:\n%s", body)
	}
	if !strings.Contains(body, "pages<small>5/1m</small>") {
		t.Errorf("the limit isn't shown by its units:\n%s", body)
	}
}

// The answer for a banned client stands above limits that say they have room, not that they let it in.
func TestLimitsOfARefusedClientLetNobodyIn(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	const letIn = `<span class="pill ok">let in</span>`
	if body := s.wantPost(200, s.form("explain", "client", "192.0.2.9")); !strings.Contains(body, letIn) {
		t.Errorf("the limit of a client that passes doesn't say so:\n%s", body)
	}
	s.wantPost(200, s.form("ban", "client", "192.0.2.9", "for", "3600"))
	body := s.wantPost(200, s.form("explain", "client", "192.0.2.9"))
	if !strings.Contains(body, "429 · Refused") || strings.Contains(body, letIn) || !strings.Contains(body, "has room") {
		t.Errorf("below a refusal is said that the client is let in:\n%s", body)
	}
}

// expiring has a client whose block is just over.
type expiring struct{ operator.Service }

func (expiring) Keys(context.Context, operator.KeysQuery) ([]operator.Key, error) {
	return []operator.Key{{Zone: "login", Limit: "5/1m", Client: "203.0.113.9", Used: 5, Amount: 5, BlockedUntil: new(time.Now())}}, nil
}

// What is shown as blocked isn't said to be free now.
func TestBlockedIsNotFreeNow(t *testing.T) {
	s := newSite(t, sample.New(time.Now), func(o *dashboard.Options) { o.Service = expiring{o.Service} })
	if body := s.get("clients"); strings.Contains(body, "free now") || !strings.Contains(body, "free in a moment") {
		t.Errorf("the page shows\n%s", body)
	}
}

// The lists of what is refused most have nothing that was only let in. That of all requests has it.
func TestRefusedMostWasRefused(t *testing.T) {
	s := newSite(t, sample.New(time.Now))
	if body := s.get(""); strings.Contains(body, "/about") || !strings.Contains(body, "Paths refused most") {
		t.Error("the first page lists a path with nothing refused")
	}
	if body := s.get("requests"); !strings.Contains(body, "/about") {
		t.Error("the page of requests lacks a path")
	}
}

// The list of the heaviest says once what an estimate is.
func TestEstimatesAreExplainedOnce(t *testing.T) {
	body := newSite(t, sample.New(time.Now)).get("history")
	if strings.Count(body, "≈ is estimated") != 1 || !strings.Contains(body, "≈ 21,004") || strings.Contains(body, "≈ 1,204,551") || strings.Contains(body, "<small>about") {
		t.Errorf("the page shows\n%s", body)
	}
}
