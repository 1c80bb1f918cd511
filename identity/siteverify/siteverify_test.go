package siteverify

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

const (
	host    = "example.com"
	secret  = "a-secret-of-ours"
	siteKey = "a-site-key-of-ours"
)

// service is a local service that records its requests.
type service struct {
	*httptest.Server
	mu    sync.Mutex
	asked []url.Values // guarded by mu
}

// newService returns a service that answers each request by calling answer, with its number from 0.
func newService(t *testing.T, answer func(nth int, w http.ResponseWriter, r *http.Request)) *service {
	s := new(service)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		s.mu.Lock()
		nth := len(s.asked)
		s.asked = append(s.asked, r.PostForm)
		s.mu.Unlock()
		answer(nth, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) questions() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// client returns a client of the local service under the name of another.
func (s *service) client(t *testing.T, name string, change func(*Options)) *Client {
	t.Helper()
	o := Options{Secret: secret, SiteKey: siteKey}
	var err error
	if o.Service, err = ByName(name); err != nil {
		t.Fatal(err)
	}
	o.Service.Endpoint = s.URL
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	c.timeout, c.now = time.Minute, func() time.Time { return now }
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func says(text string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

const good = `{"success": true, "challenge_ts": "2026-05-04T11:59:00.123Z", "hostname": "example.com", "action": "visit", "error-codes": [], "cdata": "x", "metadata": {"a": [1]}}`

func TestGoodAnswers(t *testing.T) {
	for _, name := range []string{"turnstile", "hcaptcha", "recaptcha"} {
		s := newService(t, says(good))
		if result := s.client(t, name, nil).Verify(t.Context(), "token", host); !result.Passed() || result.Unavailable() {
			t.Errorf("%s: %+v", name, result)
		}
		asked := s.questions()
		if len(asked) != 1 || asked[0].Get("secret") != secret || asked[0].Get("response") != "token" {
			t.Errorf("%s: asked %v", name, asked)
		}
		if asked[0].Has("remoteip") || asked[0].Has("sitekey") != (name == "hcaptcha") || asked[0].Has("idempotency_key") != (name == "turnstile") {
			t.Errorf("%s: asked %v", name, asked)
		}
	}
}

func TestAnswersThatDoNotCount(t *testing.T) {
	replace := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for what, c := range map[string]struct {
		answer string
		want   Reason
	}{
		"upper case":          {replace("example.com", "EXAMPLE.com"), OK},
		"old enough":          {replace("11:59:00.123", "11:55:00"), OK},
		"a clock ahead":       {replace("11:59:00.123", "12:01:00"), OK},
		"another zone":        {replace("11:59:00.123Z", "13:59:00+02:00"), OK},
		"another site":        {replace("example.com", "example.org"), WrongHost},
		"a subdomain":         {replace("example.com", "www.example.com"), WrongHost},
		"no site":             {replace("example.com", ""), WrongHost},
		"another action":      {replace("visit", "login"), WrongAct},
		"too old":             {replace("11:59:00.123", "11:54:59.9"), TooOld},
		"in the future":       {replace("11:59:00.123", "12:01:00.1"), TooOld},
		"no time":             {replace("challenge_ts", "x"), TooOld},
		"no date":             {replace("2026-05-04T11:59:00.123Z", "yesterday"), TooOld},
		"no":                  {`{"success": false, "error-codes": ["invalid-input-response"]}`, Refused},
		"no, without a word":  {`{"success": false}`, Refused},
		"used before":         {`{"success": false, "error-codes": ["timeout-or-duplicate"]}`, Refused},
		"yes and no":          {replace("[]", `["bad-request"]`), Refused},
		"a secret of another": {`{"success": false, "error-codes": ["invalid-input-secret"]}`, Misconfigured},
		"its own fault":       {`{"success": false, "error-codes": ["internal-error"]}`, Unreachable},
		"nothing":             {``, Unreadable},
		"no JSON":             {`<html>`, Unreadable},
		"two answers":         {good + good, Unreadable},
		"another type":        {`{"success": "true"}`, Unreadable},
		"a list":              {`[` + good + `]`, Unreadable},
		"null":                {`null`, Refused},
		"huge":                {strings.Replace(good, `"x"`, `"`+strings.Repeat("x", maxAnswer)+`"`, 1), Unreadable},
	} {
		s := newService(t, says(c.answer))
		result := s.client(t, "turnstile", func(o *Options) { o.Action = "visit" }).Verify(t.Context(), "token", host)
		if result.Reason != c.want {
			t.Errorf("%s: %+v, want %s", what, result, c.want)
		}
	}
}

func TestStatuses(t *testing.T) {
	bad := `{"success": false, "error-codes": ["bad-request"]}`
	for _, c := range []struct {
		status int
		body   string
		want   Reason
	}{
		{200, good, OK}, {400, bad, Refused}, {400, good, Unreadable}, {500, good, Unreadable}, {503, "", Unreadable},
		{204, "", Unreadable}, {429, "{}", Unreadable}, {201, good, Unreadable},
	} {
		s := newService(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		if result := s.client(t, "hcaptcha", nil).Verify(t.Context(), "token", host); result.Reason != c.want {
			t.Errorf("%d %s: %+v, want %s", c.status, c.body, result, c.want)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := newService(t, says(good))
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := newService(t, func(_ int, w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) })
		if result := s.client(t, "recaptcha", nil).Verify(t.Context(), "token", host); result.Reason != Unreadable {
			t.Errorf("%d: %+v, want %s", status, result, Unreadable)
		}
	}
	if n := len(elsewhere.questions()); n > 0 {
		t.Errorf("the secret went elsewhere %d times", n)
	}
}

// An endless answer is read up to the limit.
func TestEndlessAnswer(t *testing.T) {
	written := make(chan int, 1)
	s := newService(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		n := 0
		defer func() { written <- n }()
		for chunk := make([]byte, 1024); r.Context().Err() == nil; n += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if result := s.client(t, "hcaptcha", nil).Verify(t.Context(), "token", host); result.Reason != Unreadable {
		t.Errorf("%+v, want %s", result, Unreadable)
	}
	if n := <-written; n > 64<<20 { // far beyond what lies in buffers between
		t.Errorf("%d bytes went out", n)
	}
}

func TestSilence(t *testing.T) {
	s := newService(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := s.client(t, "hcaptcha", nil)
	c.timeout = 20 * time.Millisecond
	if result := c.Verify(t.Context(), "token", host); result.Reason != Unreachable {
		t.Errorf("%+v, want %s", result, Unreachable)
	}
	if n := len(s.questions()); n > 1 {
		t.Errorf("asked %d times about a token that counts once", n)
	}
	s.Close()
	if result := s.client(t, "hcaptcha", nil).Verify(t.Context(), "token", host); result.Reason != Unreachable {
		t.Errorf("without a server: %+v, want %s", result, Unreachable)
	}
}

// The service sends half an answer, and then nothing.
func TestStalledAnswer(t *testing.T) {
	s := newService(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, good[:10])
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	c := s.client(t, "hcaptcha", nil)
	c.timeout = 50 * time.Millisecond
	if result := c.Verify(t.Context(), "token", host); result.Reason != Unreachable {
		t.Errorf("%+v, want %s", result, Unreachable)
	}
}

// A request to Turnstile is repeated once, in a way that doesn't use the token twice.
func TestRetry(t *testing.T) {
	for what, first := range map[string]func(http.ResponseWriter){
		"an error":          func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"a lost connection": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"its own fault":     func(w http.ResponseWriter) { fmt.Fprint(w, `{"success": false, "error-codes": ["internal-error"]}`) },
	} {
		s := newService(t, func(nth int, w http.ResponseWriter, _ *http.Request) {
			if nth == 0 {
				first(w)
				return
			}
			fmt.Fprint(w, good)
		})
		if result := s.client(t, "turnstile", nil).Verify(t.Context(), "token", host); !result.Passed() {
			t.Errorf("%s: %+v", what, result)
		}
		asked := s.questions()
		if len(asked) != 2 || asked[0].Get("idempotency_key") == "" || asked[0].Get("idempotency_key") != asked[1].Get("idempotency_key") {
			t.Errorf("%s: asked %v", what, asked)
		}
	}
}

func TestRetryIsOne(t *testing.T) {
	s := newService(t, says("nonsense"))
	c := s.client(t, "turnstile", nil)
	c.Verify(t.Context(), "token", host)
	c.Verify(t.Context(), "token", host)
	asked := s.questions()
	if len(asked) != 4 || asked[0].Get("idempotency_key") == asked[2].Get("idempotency_key") {
		t.Errorf("asked %v", asked)
	}
}

func TestARefusalIsFinal(t *testing.T) {
	for _, code := range []string{"invalid-input-response", "invalid-input-secret"} {
		s := newService(t, says(`{"success": false, "error-codes": ["`+code+`"]}`))
		s.client(t, "turnstile", nil).Verify(t.Context(), "token", host)
		if n := len(s.questions()); n != 1 {
			t.Errorf("%s: asked %d times", code, n)
		}
	}
}

func TestVerificationsAtOnceAreBounded(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	s := newService(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		fmt.Fprint(w, good)
	})
	c := s.client(t, "turnstile", nil)
	c.slots = make(chan struct{}, 2)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if result := c.Verify(context.Background(), "token", host); !result.Passed() {
				t.Errorf("%+v", result)
			}
		})
		<-arrived
	}
	c.timeout = time.Millisecond // for the one that finds no room
	if result := c.Verify(t.Context(), "token", host); result.Reason != Busy || !result.Unavailable() {
		t.Errorf("%+v, want %s", result, Busy)
	}
	close(release)
	wg.Wait()
	if n := len(s.questions()); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestAClientThatLeft(t *testing.T) {
	s := newService(t, says(good))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if result := s.client(t, "turnstile", nil).Verify(ctx, "token", host); result.Passed() || len(s.questions()) > 0 {
		t.Errorf("%+v after %d questions", result, len(s.questions()))
	}
}

func TestTokensThatAreNone(t *testing.T) {
	s := newService(t, says(good))
	for _, token := range []string{"", strings.Repeat("x", maxToken+1)} {
		if result := s.client(t, "turnstile", nil).Verify(t.Context(), token, host); result.Reason != Malformed {
			t.Errorf("%.20q: %+v, want %s", token, result, Malformed)
		}
	}
	if n := len(s.questions()); n > 0 {
		t.Errorf("asked %d times", n)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct{ service, secret, siteKey string }{
		{"turnstile", "1x0000000000000000000000000000000AA", siteKey},
		{"turnstile", "2x0000000000000000000000000000000AA", siteKey},
		{"turnstile", "3x0000000000000000000000000000000AA", siteKey},
		{"turnstile", secret, "1x00000000000000000000AA"},
		{"turnstile", secret, "3x00000000000000000000FF"},
		{"hcaptcha", "0x0000000000000000000000000000000000000000", siteKey},
		{"hcaptcha", secret, "10000000-ffff-ffff-ffff-000000000001"},
		{"recaptcha", "6LeIxAcTAAAAAGG-vFI1TnRWxMZNFuojJ4WifJWe", siteKey},
		{"recaptcha", secret, "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI"},
		{"turnstile", "", siteKey}, {"turnstile", secret, ""}, {"turnstile", "two words", siteKey}, {"hcaptcha", "new\nline", siteKey},
		{"recaptcha", strings.Repeat("x", maxKey+1), siteKey},
	} {
		service, err := ByName(c.service)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Service: service, Secret: c.secret, SiteKey: c.siteKey}); err == nil {
			t.Errorf("%s: %q and %q were taken", c.service, c.secret, c.siteKey)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%v tells the secret", err)
		}
	}
	if _, err := ByName("capcha"); err == nil || !strings.Contains(err.Error(), "turnstile") {
		t.Errorf("an unknown service: %v", err)
	}
}
