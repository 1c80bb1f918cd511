package operator

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// send sends a request to the handler of a service.
func send(s Service, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	NewHandler(s).ServeHTTP(w, r)
	return w
}

func TestQueriesAreRead(t *testing.T) {
	for target, want := range map[string]any{
		"top":                                   KeysQuery{},
		"top?zone=login&by=refused&n=5":         KeysQuery{Zone: "login", By: ByRefused, N: 5},
		"blocked?by=used":                       KeysQuery{Blocked: true, By: ByUsed},
		"audit?n=3&before=2026-11-22T08:00:00Z": AuditQuery{N: 3, Before: moment},
		"history?zone=a+b&limit=l&from=2026-11-22T08:00:00Z&to=2026-11-22T08:00:00Z&resolution_seconds=3600": HistoryQuery{Zone: "a b", Limit: "l", From: moment, To: moment, Resolution: 3600},
		"bans":   "bans",
		"zones":  "zones",
		"status": "status",
	} {
		f := new(fake)
		w := send(f, http.MethodGet, Root+target, "")
		if w.Code != http.StatusOK || !reflect.DeepEqual(f.last(), want) {
			t.Errorf("%s: status %d, asked for %+v, want %+v", target, w.Code, f.last(), want)
		}
		if w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %v %s", target, w.Header(), w.Body)
		}
	}
}

func TestAnEmptyListIsNotNull(t *testing.T) {
	if w := send(new(fake), http.MethodGet, Root+"bans", ""); w.Body.String() != "[]\n" {
		t.Errorf("got %s", w.Body)
	}
}

func TestOrdersAreRead(t *testing.T) {
	for _, action := range []string{"reset", "ban", "unban", "allow", "disallow", "raise", "unraise"} {
		f := new(fake)
		w := send(f, http.MethodPost, Root+action, `{"client":"203.0.113.9","zone":"login","for_seconds":90.5,"reason":"r"}`)
		want := Command{Client: "203.0.113.9", Zone: "login", For: 90.5, Reason: "r", By: "admin"}
		var done Done
		if err := json.Unmarshal(w.Body.Bytes(), &done); err != nil || w.Code != http.StatusOK || done.Client != action || f.last() != want {
			t.Errorf("%s: status %d, did %+v, asked for %+v: %v", action, w.Code, done, f.last(), err)
		}
	}
}

func TestMistakesAreSaid(t *testing.T) {
	for _, test := range []struct {
		method, target, body string
		status               int
		says                 string
	}{
		{"GET", "nothing", "", 404, "audit, audit/client, ban, bans, blocked"},
		{"GET", "top/", "", 404, "top"},
		{"POST", "top", "{}", 405, "expected GET"},
		{"GET", "ban", "", 405, "expected POST"},
		{"HEAD", "events", "", 405, "expected GET"},
		{"DELETE", "bans", "", 405, "expected GET"},
		{"GET", "top?client=203.0.113.9", "", 400, "expected zone, by, n"},
		{"GET", "status?zone=a", "", 400, "expected none"},
		{"GET", "events?zone=a", "", 400, "expected none"},
		{"GET", "top?by=name", "", 400, "used or refused"},
		{"GET", "top?n=0", "", 400, "a number from 1"},
		{"GET", "top?n=99999999999999999999", "", 400, "a number from 1"},
		{"GET", "top?n=1&n=2", "", 400, "two of them"},
		{"GET", "top?zone=%zz", "", 400, "%zz"},
		{"GET", "top?zone=a;b", "", 400, "semicolon"},
		{"GET", "history?from=yesterday", "", 400, "2026-11-22T08:00:00Z"},
		{"GET", "history?resolution_seconds=7", "", 400, "60, 3600 or 86400"},
		{"POST", "ban", `{"client":"203.0.113.9"`, 400, `{"client": "203.0.113.9", "for_seconds"`},
		{"POST", "ban", `{"client":"203.0.113.9","by":"me"}`, 400, `unknown field "by"`},
		{"POST", "ban", `{"client":"203.0.113.9","for":1}`, 400, `unknown field "for"`},
		{"POST", "ban", `{"client":"203.0.113.9"} {}`, 400, "behind the object"},
		{"POST", "ban", `{"client":"203.0.113.9"}]`, 400, "behind the object"},
		{"POST", "ban", `["203.0.113.9"]`, 400, "expected JSON such as"},
		{"POST", "ban", `null`, 400, "client: expected an address"},
		{"POST", "ban", `{"client":"203.0.113.9","for_seconds":"1h"}`, 400, "for_seconds"},
		{"POST", "ban", `{"client":"somebody"}`, 400, "api-key:NAME"},
		{"POST", "ban?client=203.0.113.9", `{}`, 400, "Caddy logs it"},
		{"POST", "explain", `{"client":"203.0.113.9","headers":"x"}`, 400, "headers"},
		{"POST", "ban", `{"reason":"` + strings.Repeat("x", MaxBody) + `"}`, 413, "at most 65536 bytes"},
	} {
		f := new(fake)
		w := send(f, test.method, Root+test.target, test.body)
		var answer Error
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != test.status || answer.Status != test.status || !strings.Contains(answer.Message, test.says) {
			t.Errorf("%s %.60s %.60s: status %d, %s: %v; want %d, %s", test.method, test.target, test.body, w.Code, w.Body, err, test.status, test.says)
		}
		if allow := w.Header().Get("Allow"); (allow != "") != (test.status == 405) {
			t.Errorf("%s %s: Allow is %q", test.method, test.target, allow)
		}
		if f.last() != nil {
			t.Errorf("%s %s %.60s: the service was asked for %v", test.method, test.target, test.body, f.last())
		}
	}
}

// A page of another site can make a browser send a form, or JSON as plain text.
func TestFormsAreRefused(t *testing.T) {
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json-patch+json", "application/jsonx", ";"} {
		f := new(fake)
		r := httptest.NewRequest(http.MethodPost, Root+"ban", strings.NewReader(`{"client":"203.0.113.9"}`))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		NewHandler(f).ServeHTTP(w, r)
		if w.Code != http.StatusUnsupportedMediaType || f.last() != nil {
			t.Errorf("%q: status %d", kind, w.Code)
		}
	}
}

func TestErrorsOfAServiceAreJSON(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
	}{
		{Errorf(http.StatusNotFound, "nobody of that name"), 404},
		{Errorf(http.StatusServiceUnavailable, "the store"), 503},
		{errors.New("a disk"), 500},
	} {
		w := send(&fake{err: test.err}, http.MethodPost, Root+"unban", `{"client":"203.0.113.9"}`)
		if want := `"error":"` + test.err.Error() + `"}`; w.Code != test.status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("status %d, %s, want %d, %s", w.Code, w.Body, test.status, want)
		}
	}
}

// reader is a response with a reader.
type reader struct {
	header   http.Header
	pieces   chan string
	deadline *time.Time // for reading; nil until it is set
	gone     bool       // writing fails
}

func (r *reader) Header() http.Header { return r.header }
func (r *reader) WriteHeader(int)     {}
func (r *reader) Flush()              {}

func (r *reader) Write(b []byte) (int, error) {
	if r.gone {
		return 0, errors.New("nobody is there")
	}
	r.pieces <- string(b)
	return len(b), nil
}

func (r *reader) SetReadDeadline(at time.Time) error {
	r.deadline = &at
	return nil
}

func newReader() *reader { return &reader{header: make(http.Header), pieces: make(chan string, 9)} }

func TestAStreamShowsThatItIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := &fake{events: make(chan Event)}, newReader()
		done := make(chan struct{})
		go func() {
			NewHandler(f).ServeHTTP(w, httptest.NewRequest(http.MethodGet, Root+"events", nil))
			close(done)
		}()
		for _, want := range []string{": this stream is open\n\n", ": nothing new\n\n", ": nothing new\n\n"} {
			if got := <-w.pieces; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		f.events <- Event{Refused: &Refused{Zone: "login", Text: "a\nb"}}
		if got := <-w.pieces; !strings.HasPrefix(got, `data: {"refused":{`) || strings.Count(got, "\n") != 2 {
			t.Errorf("got %q", got)
		}
		if w.deadline == nil || !w.deadline.IsZero() {
			t.Error("the server ends the stream when a request should have been read")
		}
		close(f.events)
		<-done
	})
}

func TestAStreamEndsWithItsReader(t *testing.T) {
	f, w := &fake{events: make(chan Event)}, newReader()
	w.gone = true
	NewHandler(f).ServeHTTP(w, httptest.NewRequest(http.MethodGet, Root+"events", nil))
}

func TestAStreamTooManyIsRefused(t *testing.T) {
	if w := send(new(fake), http.MethodGet, Root+"events", ""); w.Code != http.StatusTooManyRequests || !json.Valid(w.Body.Bytes()) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func FuzzHandler(f *testing.F) {
	f.Add("POST", "ban", "", `{"client":"203.0.113.9","for_seconds":1e300}`)
	f.Add("GET", "top", "zone=a&n=1", "")
	f.Add("GET", "history", "from=9999-12-31T23:59:59Z", "")
	f.Add("POST", "explain", "", `{"client":"key:\u001b[2J","headers":{"A":["b"]}}`)
	f.Fuzz(func(t *testing.T, method, name, query, body string) {
		service, w := new(fake), httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, Root, strings.NewReader(body))
		r.Method, r.URL.Path, r.URL.RawQuery = method, Root+name, query
		r.Header.Set("Content-Type", "application/json")
		NewHandler(service).ServeHTTP(w, r)
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("the answer is %q", w.Body)
		}
		if (w.Code == http.StatusOK) != (service.last() != nil) {
			t.Errorf("status %d, and the service was asked for %v", w.Code, service.last())
		}
	})
}

func TestSecondsDoNotOverflow(t *testing.T) {
	for s, positive := range map[Seconds]bool{1e300: true, 1e10: true, -1e300: false, -1e10: false} {
		if (s.Duration() > 0) != positive {
			t.Errorf("%g s are %v", float64(s), s.Duration())
		}
	}
}
