package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tally/caddy-tally/internal/meter"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const all = "ban degraded refusals"

// posted is what a server got.
type posted struct{ body, contentType, token string }

// hook serves a webhook that answers with the statuses in turn, and then with 200.
func hook(t *testing.T, o Options, statuses ...int) (*Webhook, <-chan posted) {
	t.Helper()
	got := make(chan posted, maxQueue)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- posted{string(body), r.Header.Get("Content-Type"), r.Header.Get("Authorization")}
		if len(statuses) > 0 {
			w.WriteHeader(statuses[0])
			statuses = statuses[1:]
		}
	}))
	t.Cleanup(server.Close)
	o.URL = server.URL
	w, err := Acquire(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Release)
	return w, got
}

// dropped returns how many notifications were dropped so far.
func dropped(t *testing.T) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	families, err := registry.Gather()
	if err = errors.Join(err, meter.Register(registry)); err == nil {
		families, err = registry.Gather()
	}
	for _, f := range families {
		if f.GetName() == "caddy_rate_limit_dropped_notifications_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("there is no metric", err)
	return 0
}

// By default a notification holds no address, and only a template that asks gets one.
func TestBodies(t *testing.T) {
	until := noon.Add(time.Hour)
	e := Event{Kind: Ban, Time: noon, Text: `A "client" was banned.`, Reason: "trap", Client: "203.0.113.0/24", Address: "203.0.113.9", Until: &until}
	for template, want := range map[string]posted{
		"":                            {`{"kind":"ban","time":"2026-11-22T12:00:00Z","text":"A \"client\" was banned.","reason":"trap","client":"203.0.113.0/24","until":"2026-11-22T13:00:00Z"}`, "application/json", ""},
		"{{.Text}}":                   {`A "client" was banned.`, "text/plain; charset=utf-8", ""},
		`{"text": {{json .Text}}}`:    {`{"text": "A \"client\" was banned."}`, "application/json", ""},
		"{{.Client}} {{.Until.Year}}": {"203.0.113.0/24 2026", "text/plain; charset=utf-8", ""},
		"{{.Address}}":                {"203.0.113.9", "text/plain; charset=utf-8", ""},
	} {
		w, got := hook(t, Options{Template: template, On: Ban})
		w.Run()
		w.Send(e)
		if g := <-got; g != want {
			t.Errorf("%s: got %+v, want %+v", template, g, want)
		}
	}
}

func TestOnlyTheKindsThatAreAskedFor(t *testing.T) {
	w, got := hook(t, Options{On: Degraded, Template: "{{.Kind}}", Header: "Authorization: Bearer x\n"})
	w.Run()
	for _, kind := range []string{Ban, Refusals, Degraded, Recovered} {
		w.Send(Event{Kind: kind, Time: noon})
	}
	if a, b := <-got, <-got; a.body != Degraded || b.body != Recovered || a.token != "Bearer x" {
		t.Errorf("got %+v and %+v", a, b)
	}
	w, got = hook(t, Options{On: Refusals, Template: "{{.Kind}}"})
	w.Run()
	for _, kind := range []string{Recovered, Calm} {
		w.Send(Event{Kind: kind, Time: noon})
	}
	if a := <-got; a.body != Calm {
		t.Errorf("got %+v", a)
	}
}

// A flood of bans is one notification a minute, which says how many there were.
func TestAFloodIsOneNotificationAMinute(t *testing.T) {
	w, got := hook(t, Options{On: all})
	for i := range 1000 {
		w.Send(Event{Kind: Ban, Time: noon.Add(time.Duration(i) * time.Millisecond)})
	}
	w.Send(Event{Kind: Refusals, Zone: "a", Time: noon})
	w.Send(Event{Kind: Refusals, Zone: "b", Time: noon})
	w.Send(Event{Kind: Ban, Time: noon.Add(Spacing)})
	if len(w.queue) != 4 {
		t.Fatalf("%d wait", len(w.queue))
	}
	w.Run()
	var last Event
	for range 4 {
		if err := json.Unmarshal([]byte((<-got).body), &last); err != nil {
			t.Fatal(err)
		}
	}
	if last.LeftOut != 999 {
		t.Errorf("%d are left out, want 999", last.LeftOut)
	}
}

func TestAFullQueueDropsAndDoesNotBlock(t *testing.T) {
	w, _ := hook(t, Options{On: all})
	before := dropped(t)
	for i := range maxQueue + 5 {
		w.Send(Event{Kind: Refusals, Zone: fmt.Sprint(i), Time: noon})
	}
	if n := dropped(t) - before; n != 5 {
		t.Errorf("%v were dropped, want 5", n)
	}
}

func TestRetries(t *testing.T) {
	defer func(was time.Duration) { firstPause = was }(firstPause)
	firstPause = time.Microsecond
	for _, test := range []struct {
		statuses       []int
		posts, dropped int
	}{
		{[]int{500, 429, 503}, 4, 0},
		{[]int{404}, 1, 1},
		{[]int{302}, 1, 1},
		{[]int{500, 500, 500, 500, 500, 500, 500, 500}, maxAttempts, 1},
	} {
		before := dropped(t)
		w, got := hook(t, Options{On: all}, test.statuses...)
		if err := w.deliver(Event{Kind: Ban, Time: noon}); (err != nil) != (test.dropped == 1) {
			t.Errorf("%v: %v", test.statuses, err)
		}
		if len(got) != test.posts || dropped(t) != before {
			t.Errorf("%v: %d posts, want %d", test.statuses, len(got), test.posts)
		}
	}
}

// A webhook that doesn't answer holds up no reload: its end interrupts a post and a pause.
func TestTheEndInterrupts(t *testing.T) {
	reached, end := make(chan struct{}, maxAttempts), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		<-end
	}))
	defer server.Close()
	defer close(end)
	w, err := Acquire(Options{URL: server.URL + "/?key=secret", On: all})
	if err != nil {
		t.Fatal(err)
	}
	before := dropped(t)
	w.Run()
	w.Send(Event{Kind: Ban, Time: noon})
	<-reached
	w.Send(Event{Kind: Degraded, Time: noon})
	w.Release()
	if n := dropped(t) - before; n != 2 {
		t.Errorf("%v were dropped, want 2", n)
	}
}

func TestBadOptions(t *testing.T) {
	for says, o := range map[string]Options{
		"expected a URL":        {URL: "ntfy.example.com/alerts?key=secret"},
		"can't evaluate field ": {URL: "https://example.com", Template: "{{.Nobody}}"},
		"unclosed action":       {URL: "https://example.com", Template: "{{.Text"},
	} {
		if _, err := Acquire(o); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A template that begins as an object of JSON gives one for every text.
func TestTemplatesOfObjectsAreJSON(t *testing.T) {
	for template, valid := range map[string]bool{
		`{"text": {{json .Text}}}`: true, `{{.Text}}`: true, `{host} {{.Text}}`: true, ` { "a": [1, {{json .Text}}] } `: true, `{}`: true, "": true,
		`{"text": "{{.Text}}"}`: false, `{"text": {{.Text}}}`: false, `{"text": {{json .Text}}`: false, "{\n\t\"text\": {{json .Text}},\n}": false,
	} {
		if _, err := ParseTemplate(template); (err == nil) != valid {
			t.Errorf("%s: %v", template, err)
		}
	}
}

// A template that fails for a kind of events is found when the config is loaded, not when the first
// such event is lost.
func TestTemplatesAreTriedWithEachKind(t *testing.T) {
	for _, c := range []struct{ template, on, fails string }{
		{"until {{.Until.Format \"15:04\"}}", "ban", ""},
		{"until {{.Until.Format \"15:04\"}}", "ban degraded", Degraded},
		{"until {{.Until.Format \"15:04\"}}", "refusals", Refusals},
		{"{{if eq .Kind \"calm\"}}{{.Until.Unix}}{{end}}", "refusals", Calm},
		{"{{if eq .Kind \"recovered\"}}{{.Until.Unix}}{{end}}", "ban degraded refusals", Recovered},
		{"{{with .Until}}until {{.Format \"15:04\"}}{{end}}", "ban degraded refusals", ""},
		{"", "ban degraded refusals", ""},
	} {
		w, err := Acquire(Options{URL: "http://127.0.0.1:9/", Template: c.template, On: c.on})
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), "of the kind "+c.fails) {
			t.Errorf("%s on %s: got %v, want it to fail for %q", c.template, c.on, err, c.fails)
		}
		if err == nil {
			w.Release()
		}
	}
}
