package enforce_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity/siteverify"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// sessionPath is the default path of challenges.
const sessionPath = "/.well-known/rate-limit/"

// widgetHandler returns a handler with a service's widget as the challenge, and another address for
// verifying it.
func widgetHandler(t *testing.T, service http.HandlerFunc) *enforce.Handler {
	t.Helper()
	local := httptest.NewServer(service)
	t.Cleanup(local.Close)
	app := &config.App{Session: &config.Session{MaxPerPrefix: 100, Challenge: &config.Challenge{Type: "turnstile", SiteKey: "a-site-key", Secret: "a-secret"}}}
	h := handlertest.Provision(t, handlertest.Compile(t, app), &config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerClient, OnExceeded: "challenge", Limits: []config.Limit{{Amount: 1, Window: 3600e9}}}}})
	turnstile, err := siteverify.ByName("turnstile")
	if err != nil {
		t.Fatal(err)
	}
	turnstile.Endpoint = local.URL
	h.Config.Session.Verifier, err = siteverify.New(siteverify.Options{
		Service: turnstile, SiteKey: "a-site-key", Secret: "a-secret", Action: enforce.WidgetAction,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Config.Started()
	t.Cleanup(func() { h.Config.Cleanup() })
	return h
}

// serve makes a handler serve a request of a client.
func serve(t *testing.T, h *enforce.Handler, method, path, ip string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "http://example.com"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html")
	r.Header.Set("User-Agent", browser)
	r.Header.Set("Upgrade-Insecure-Requests", "1") // as from a person who loads a page
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, ip)
	err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(w, "hello")
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWidgetOfAService(t *testing.T) {
	h := widgetHandler(t, func(w http.ResponseWriter, r *http.Request) {
		good := r.PostFormValue("response") == "good" && r.PostFormValue("secret") == "a-secret"
		fmt.Fprintf(w, `{"success":%v,"hostname":"example.com","action":"rate-limit","challenge_ts":%q}`, good, time.Now().UTC().Format(time.RFC3339))
	})
	serve(t, h, "GET", "/", "192.0.2.1", nil)
	page := serve(t, h, "GET", "/", "192.0.2.1", nil)
	policy := page.Header().Get("Content-Security-Policy")
	for _, part := range []string{`class="widget cf-turnstile"`, `data-sitekey="a-site-key"`, `data-action="rate-limit"`} {
		if !strings.Contains(page.Body.String(), part) {
			t.Errorf("the page lacks %s", part)
		}
	}
	if page.Code != http.StatusTooManyRequests || !strings.Contains(policy, "https://challenges.cloudflare.com") || strings.Contains(page.Body.String(), "a-secret") {
		t.Errorf("the page has status %d and the policy %q", page.Code, policy)
	}
	const path = sessionPath
	if w := serve(t, h, "POST", path, "192.0.2.1", url.Values{"cf-turnstile-response": {"bad"}, "target": {"/x"}}); w.Code != http.StatusForbidden || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a bad token is answered with %d", w.Code)
	}
	good := url.Values{"cf-turnstile-response": {"good"}, "target": {"/x"}}
	if w := serve(t, h, "POST", path, "192.0.2.1", good); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/x" || w.Header().Get("Set-Cookie") == "" {
		t.Errorf("a good token is answered with %d and %v", w.Code, w.Header())
	}
	// The same token fails even if the service would accept it again.
	if w := serve(t, h, "POST", path, "192.0.2.1", good); w.Code != http.StatusForbidden || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("the same token is answered with %d", w.Code)
	}
}

// If the service is down, it issues no sessions, but everything else works.
func TestWidgetOfAServiceThatIsDown(t *testing.T) {
	h := widgetHandler(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w := serve(t, h, "POST", sessionPath, "192.0.2.1", url.Values{"cf-turnstile-response": {"good"}})
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Set-Cookie") != "" || !strings.Contains(w.Body.String(), "can’t be done at the moment") {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
	if w := serve(t, h, "GET", "/", "192.0.2.1", nil); w.Code != http.StatusOK {
		t.Errorf("a client that asks for nothing is answered with %d", w.Code)
	}
}

// The path's limit per network is far lower than this, so the test bypasses it.
func TestSolutionSentAHundredTimesAtOnceEarnsOneSession(t *testing.T) {
	app := &config.App{Session: &config.Session{MaxPerPrefix: 1000, Challenge: &config.Challenge{Difficulty: 1}}}
	h := handlertest.Start(t, app, &config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerClient, Limits: []config.Limit{{Amount: 1, Window: 3600e9}}}}})

	post := func(form url.Values) *enforce.ChallengeExchange { return newExchange(t, h, http.MethodPost, form) }
	var form url.Values
	for n := 0; form == nil; n++ {
		x := post(nil)
		puzzle := x.Keys.Setter.Set(time.Now(), "example.com", x.Client.NetworkID())
		try := url.Values{"puzzle": {puzzle.Text}, "solution": {fmt.Sprintf("%016x", n)}}
		if _, err := x.Keys.Setter.Check(time.Now(), "example.com", x.Client.NetworkID(), puzzle.Text, try.Get("solution")); err == nil {
			form = try
		}
	}
	var mu sync.Mutex
	answers := make(map[string]int)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			x := post(form)
			if err := x.Accept(); err != nil {
				t.Error(err)
			}
			w := x.W.(*httptest.ResponseRecorder)
			what := fmt.Sprint(w.Code, ", cookies: ", len(w.Result().Cookies()), ", used: ", strings.Contains(w.Body.String(), enforce.Notices[enforce.UsedBefore](language.Choose(""))))
			mu.Lock()
			defer mu.Unlock()
			answers[what]++
		})
	}
	all.Wait()
	if answers["303, cookies: 1, used: false"] != 1 || answers["403, cookies: 0, used: true"] != 99 {
		t.Errorf("the answers are %v", answers)
	}
}

// newExchange returns a request for the challenge's path, of one client.
func newExchange(t *testing.T, h *enforce.Handler, method string, form url.Values) *enforce.ChallengeExchange {
	return newExchangeOf(t, h, method, form, "192.0.2.1")
}

func newExchangeOf(t *testing.T, h *enforce.Handler, method string, form url.Values, ip string) *enforce.ChallengeExchange {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, sessionPath, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, ip)
	e := enforce.NewEvaluation(r)
	e.AttachClient(h.Config, false)
	e.Client.LocateFrom(e)
	s := h.Config.Session
	return &enforce.ChallengeExchange{Sessions: s, Config: h.Config, W: w, Http: r, Evaluation: e, Client: e.Client, Keys: s.Ready(t.Context(), h.Config), Page: h.Answer.Page}
}

// A client that has collected tokens and waits for all of them at once gets a tenth of the
// network's sessions: of an hour, or of a lifetime. Puzzles earn the others.
func TestWaitingForManyTokensEarnsATenth(t *testing.T) {
	for name, c := range map[string]struct{ hourly, live, waited, solved int }{
		"by the hour":     {20, 0, 2, 18},
		"by the lifetime": {20, 10, 1, 9},
		"of few":          {3, 0, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			app := &config.App{Session: &config.Session{MaxPerPrefix: c.hourly, Challenge: &config.Challenge{Difficulty: 1, WithoutScript: 10e9}}}
			h := handlertest.Start(t, app, &config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerClient, Limits: []config.Limit{{Amount: 1, Window: 3600e9}}}}})
			if c.live > 0 {
				h.Config.Session.Limits = enforce.NewSessionLimits(int64(c.hourly), int64(c.live), time.Hour)
			}
			var all sync.WaitGroup
			var waited, solved atomic.Int64
			for range 50 {
				all.Go(func() {
					x := newExchange(t, h, http.MethodGet, nil)
					token := x.Keys.Setter.SetWait(time.Now().Add(-30*time.Second), "example.com", x.Client.NetworkID(), 10*time.Second)
					if err := x.AcceptWait(token.Token); err != nil {
						t.Error(err)
					}
					count(t, x, &waited)
				})
			}
			all.Wait()
			for range 50 {
				x := newExchange(t, h, http.MethodPost, nil)
				token := [enforce.TokenSize]byte{}
				_, _ = rand.Read(token[:])
				if err := x.Issue(token); err != nil {
					t.Error(err)
				}
				count(t, x, &solved)
			}
			if waited.Load() != int64(c.waited) || solved.Load() != int64(c.solved) {
				t.Errorf("waiting earns %d sessions and puzzles %d, want %d and %d", waited.Load(), solved.Load(), c.waited, c.solved)
			}
		})
	}
}

// count counts an exchange that has issued a session. Otherwise it must be refused.
func count(t *testing.T, x *enforce.ChallengeExchange, issued *atomic.Int64) {
	w := x.W.(*httptest.ResponseRecorder)
	switch {
	case w.Code == http.StatusSeeOther && len(w.Result().Cookies()) == 1:
		issued.Add(1)
	case w.Code != http.StatusTooManyRequests || len(w.Result().Cookies()) != 0:
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
}

// All requests of a network for the challenge's path and below are limited.
func TestVisitsOfTheChallengesPathAreLimited(t *testing.T) {
	for name, ask := range map[string]struct {
		method, path string
		status       int
	}{
		"path":         {"GET", sessionPath, http.StatusOK},
		"below it":     {"GET", sessionPath + "x", http.StatusNotFound},
		"other method": {"DELETE", sessionPath, http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			h := handlertest.Start(t, &config.App{Session: &config.Session{Challenge: &config.Challenge{Difficulty: 1}}}, &config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerClient, Limits: []config.Limit{{Amount: 1, Window: 3600e9}}}}})
			h.Config.Session.Limits.Visits = enforce.OwnLimit("visits", limiter.Params{Amount: 3, Window: 3600e9})
			for range 3 {
				if w := serve(t, h, ask.method, ask.path, "192.0.2.1", nil); w.Code != ask.status {
					t.Errorf("status %d, want %d", w.Code, ask.status)
				}
			}
			w := serve(t, h, ask.method, ask.path, "192.0.2.1", nil)
			if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
				t.Errorf("one more is answered with %d, %v", w.Code, w.Header())
			}
			if w := serve(t, h, ask.method, ask.path, "192.0.2.2", nil); w.Code != ask.status {
				t.Errorf("another network is answered with %d", w.Code)
			}
		})
	}
}
