package operator

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
)

// clientOf returns a client of a server that runs until the test ends.
func clientOf(t *testing.T, handler http.Handler) *Remote {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return NewRemote("tcp", strings.TrimPrefix(server.URL, "http://"))
}

// answer is the result of a service's method, and its question.
type answer struct{ asked, value, err any }

// callAll calls all methods of a service that answer at once.
func callAll(t *testing.T, s Service, f *fake) (answers []answer) {
	ctx := t.Context()
	add := func(value any, err error) { answers = append(answers, answer{f.last(), value, err}) }
	command := Command{Client: "203.0.113.9", Zone: "login", For: 60, Reason: "r", Force: true, By: "admin"}
	value, err := s.Status(ctx)
	add(value, err)
	zones, err := s.Zones(ctx)
	add(zones, err)
	keys, err := s.Keys(ctx, KeysQuery{Zone: "a&b=c", By: ByRefused, N: 3})
	add(keys, err)
	keys, err = s.Keys(ctx, KeysQuery{Blocked: true})
	add(keys, err)
	bans, err := s.Bans(ctx)
	add(len(bans), err)
	history, err := s.History(ctx, HistoryQuery{Zone: "login", Limit: "l", From: moment, To: moment, Resolution: 86400})
	add(history, err)
	usage, err := s.Usage(ctx, UsageQuery{Client: "api-key:acme", Month: "2026-11"})
	add(usage, err)
	for _, q := range []RefusalsQuery{{Zone: "a&b", Path: "/", Agent: "a", Network: "n", Country: "DE", Provider: "AS64496"}, {Client: "key:a", Path: "/"}, {Text: "t", Zone: "z"}} {
		refusals, err := s.Refusals(ctx, q)
		add(refusals, err)
	}
	audit, err := s.Audit(ctx, AuditQuery{Before: moment, N: 7})
	add(audit, err)
	audit, err = s.Audit(ctx, AuditQuery{Client: "203.0.113.9", Charges: true, Before: moment, N: 7})
	add(audit, err)
	explanation, err := s.Explain(ctx, Question{Client: "key:ü", URL: "https://a/b", Method: "POST", Header: http.Header{"A": {"b"}}, Note: true, By: "admin"})
	add(explanation, err)
	for _, action := range []Action{Reset, Ban, Unban, Allow, Disallow, Raise, Unraise} {
		done, err := s.Do(ctx, action, command)
		add(done, err)
	}
	done, err := s.Import(ctx, Import{Rules: []string{"ban 203.0.113.9 # <a&b>"}, Allow: true, Force: true, By: "admin"})
	add(done, err)
	add(nil, s.Reveal(ctx, "admin", "bans"))
	return answers
}

// A client behaves like the service that it asks.
func TestAClientIsTheService(t *testing.T) {
	f := new(fake)
	near := callAll(t, f, f)
	far := callAll(t, clientOf(t, NewHandler(f)), f)
	for i := range near {
		if !reflect.DeepEqual(near[i], far[i]) {
			t.Errorf("call %d: got %+v, want %+v", i, far[i], near[i])
		}
	}
}

func TestAClientOfASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Skip("no unix sockets here:", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "127.0.0.1" || r.Header.Get("Origin") != "" {
			t.Errorf("host %q, origin %q", r.Host, r.Header.Get("Origin"))
		}
		NewHandler(new(fake)).ServeHTTP(w, r)
	})}
	go server.Serve(listener)
	defer server.Close()
	if status, err := NewRemote("unix", path).Status(t.Context()); err != nil || status.Version != "v1" {
		t.Errorf("got %+v, %v", status, err)
	}
}

func TestErrorsComeThrough(t *testing.T) {
	want := Errorf(http.StatusNotFound, "there is no zone %q", "logn")
	_, err := clientOf(t, NewHandler(&fake{err: want})).Zones(t.Context())
	if !reflect.DeepEqual(err, error(want)) {
		t.Errorf("got %v", err)
	}
}

func TestAClientSaysWhatAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.Handler
		says    string
	}{
		"no module":       {http.NotFoundHandler(), "its status is 404"},
		"another program": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>")) }), "can't be understood"},
		"another JSON":    {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`"hello"`)) }), "can't be understood"},
		"Caddy's own error": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `{"error":"host not allowed: x"}`, http.StatusForbidden)
		}), "refuses this: host not allowed"},
		"a redirect": {http.RedirectHandler("http://203.0.113.9/", http.StatusFound), "its status is 302"},
		"too much":   {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(bytes.Repeat([]byte{' '}, maxAnswer+1)) }), "more than"},
		"nothing":    {http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "is it Caddy's admin endpoint?"},
	} {
		if _, err := clientOf(t, test.handler).Status(t.Context()); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %s", name, err, test.says)
		}
	}
}

func TestAClientWithoutCaddy(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close() // nothing listens there now
	for _, c := range []*Remote{NewRemote("tcp", strings.TrimPrefix(server.URL, "http://")), NewRemote("unix", filepath.Join(t.TempDir(), "none.sock"))} {
		if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "start Caddy, or name its admin endpoint with --address") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := NewRemote("tcp", "a b").Status(t.Context()); err == nil || !strings.Contains(err.Error(), `address "a b"`) {
		t.Errorf("got %v", err)
	}
}

// A charge with an id that gets no answer, because a reload closes the listener, is sent again. Without an id it may
// have taken effect, so it isn't.
func TestChargesSurviveAReload(t *testing.T) {
	var asked atomic.Int32
	served := NewHandler(new(fake))
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 2 {
			served.ServeHTTP(w, r)
			return
		}
		panic(http.ErrAbortHandler) // ends the connection without an answer
	}))
	if _, err := c.Charge(t.Context(), Charge{Zone: "mails", Client: "key:42", Units: 3, ID: "order-1"}); err != nil || asked.Load() != 3 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
	asked.Store(0)
	if _, err := c.Charge(t.Context(), Charge{Zone: "mails", Client: "key:42", Units: 3}); err == nil || asked.Load() != 1 {
		t.Errorf("without an id, asked %d times: %v", asked.Load(), err)
	}
}

func TestAClientFollowsEvents(t *testing.T) {
	f := &fake{events: make(chan Event)}
	ctx, cancel := context.WithCancel(t.Context())
	events, err := clientOf(t, NewHandler(f)).Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := Event{Totals: &Totals{At: moment, Counts: Counts{Allowed: 5}, Zones: map[string]Counts{"login": {Refused: 2}}}}
	f.events <- want
	if got := <-events; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got.Totals, want.Totals)
	}
	cancel()
	for range events { // until it is closed
	}
}

func TestAStreamEndsWithTheService(t *testing.T) {
	f := &fake{events: make(chan Event)}
	events, err := clientOf(t, NewHandler(f)).Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(f.events)
	for range events { // until it is closed
	}
}
