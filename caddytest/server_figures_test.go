package caddytest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// figuresConfig has two zones for every request, a second handler behind the first, a trap, an exemption, an
// API key that may be missing, a shadow limit, places, and an error route with a handler of its own.
const figuresConfig = `
	handle_path /limits/* {
		rate_limit_dashboard {
			allow 127.0.0.1/8
		}
	}
	handle {
		rate_limit {
			exempt path /health
			zone all {
				limit 1000/1h
				limit 3/1h shadow
			}
			zone both {
				limit 20/1h
			}
			trap ban 1h path /.env
		}
		handle /inside* {
			rate_limit {
				zone inside {
					limit 4/1h
				}
			}
			respond inside
		}
		handle /keyed {
			rate_limit {
				zone keyed {
					per api_key
					limit 5/1h
				}
			}
			respond keyed
		}
		respond hello
	}
	handle_errors {
		rate_limit {
			zone errors {
				limit 1000/1h
			}
		}
		respond "no"
	}
`

func figuresOptions() string {
	return options("rate_limit {\nstore_timeout 1m\npressure off\ntier free {\nlimit 1000/1h\n}\napi_keys {\nmissing deny\n}\n}\n" + trusting)
}

// expected counts what clients are answered with: the oracle.
type expected struct{ letIn, refused, banned, wouldRefuse int64 }

func (e *expected) send(s *server, n int, path string, fields ...string) {
	for range n {
		switch a := s.get(path, fields...); a.status {
		case http.StatusOK:
			e.letIn++
		case http.StatusTooManyRequests, http.StatusUnauthorized:
			e.refused++
		default:
			s.t.Fatalf("%s is answered with %d", path, a.status)
		}
	}
}

// ban sends requests of a banned client.
func (e *expected) ban(s *server, n int, path string, fields ...string) {
	before := e.refused
	e.send(s, n, path, fields...)
	e.banned += e.refused - before
}

func (e expected) counts() operator.Counts {
	return operator.Counts{Allowed: e.letIn, Refused: e.refused, Banned: e.banned, WouldRefuse: e.wouldRefuse}
}

// wantFigures compares what is counted since the start with what clients saw.
func (s *server) wantFigures(t *testing.T, x expected) {
	t.Helper()
	s.awaitWouldRefuse(t, x.wouldRefuse)
	want := x.counts()
	status, err := s.operator().Status(t.Context())
	if got := status.Requests; err != nil || withoutBlocked(got) != want {
		t.Errorf("status says %+v, %v, want %+v", got, err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := s.operator().Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if first := <-events; first.Totals == nil || withoutBlocked(first.Totals.Counts) != want {
		t.Errorf("the stream says %+v, want %+v", first.Totals, want)
	}
	text := s.mustMetrics()
	received := int64(metricOf(t, text, "caddy_rate_limit_received_requests_total"))
	if notLetIn := int64(s.sum("caddy_rate_limit_not_let_in_requests_total", "")); received-notLetIn != x.letIn || notLetIn != x.refused {
		t.Errorf("metrics: %d received, %d of them not let in, want %d and %d", received, notLetIn, x.letIn+x.refused, x.refused)
	}
	page := s.get("/limits/").body
	for name, n := range map[string]int64{"allowed": x.letIn, "refused": x.refused, "banned": x.banned, "would_refuse": x.wouldRefuse} {
		if figure := fmt.Sprintf(`<span data-since="%s">(%d )?since the start`, name, n); !regexp.MustCompile(figure).MatchString(page) && !strings.Contains(page, fmt.Sprintf(`<b data-rate="%s">%d</b>`, name, n)) {
			t.Errorf("the dashboard lacks %s %d:\n%s", name, n, page)
		}
	}
}

// awaitWouldRefuse waits for the decisions of shadow limits, which come when the store has answered.
func (s *server) awaitWouldRefuse(t *testing.T, want int64) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d requests that would be refused", want), func() bool {
		return int64(metricOf(t, s.mustMetrics(), "caddy_rate_limit_would_not_let_in_requests_total")) == want
	})
}

func withoutBlocked(c operator.Counts) operator.Counts {
	c.Blocked = 0
	return c
}

// metricOf returns the value of a metric without labels.
func metricOf(t *testing.T, text, name string) (value float64) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, name+" "); ok {
			fmt.Sscan(n, &value)
			return value
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// wantHistory compares the history, by day and by hour, with what clients saw.
func (s *server) wantHistory(t *testing.T, x expected) {
	t.Helper()
	for _, by := range []operator.Seconds{60, 3600, 86400} {
		now := time.Now()
		past, err := s.operator().History(t.Context(), operator.HistoryQuery{From: now.Add(-25 * time.Hour), To: now.Add(time.Hour), Resolution: by})
		var sum operator.Counts
		for _, p := range past.Points {
			sum.Add(p.Counts)
		}
		if err != nil || withoutBlocked(sum) != x.counts() {
			t.Errorf("by %v s: got %+v, %v, want %+v", by, sum, err, x.counts())
		}
	}
	out, _, status := s.rateLimit("export", "--no-clients")
	var all struct{ History operator.History }
	if err := json.Unmarshal([]byte(out), &all); err != nil || status != 0 {
		t.Fatalf("export: %v\n%s", err, out)
	}
	var sum operator.Counts
	for _, p := range all.History.Points {
		sum.Add(p.Counts)
	}
	if withoutBlocked(sum) != x.counts() {
		t.Errorf("export: got %+v, want %+v", sum, x.counts())
	}
	page := s.get("/limits/history?range=7d").body
	for title, n := range map[string]int64{"Let in": x.letIn, "Refused": x.refused, "Refused for a ban": x.banned} {
		if figure := fmt.Sprintf("<dt>%s</dt><dd><b>%d</b>", title, n); !strings.Contains(page, figure) {
			t.Errorf("the page of the history lacks %s", figure)
		}
	}
}

// Every request is counted once, by what its client sees, however many zones and handlers decide
// about it: in status, events, metrics, dashboard, history and export, over a reload, and in the
// history over a restart and of two processes.
func TestRequestsAreCountedOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t, figuresOptions()+site(figuresConfig))
	key, err := apikeys.New(filepath.Join(filepath.Dir(s.rulesFile()), "api_keys"), apikeys.Holder{Name: "acme", Tier: "free"})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	var x expected
	x.send(s, 30, "/", from(1)) // 20 are let in, in both zones
	x.wouldRefuse = 17          // of the zone all
	x.send(s, 6, "/inside", from(2))
	x.wouldRefuse += 3 // the shadow limit counts what the second handler refuses
	x.send(s, 7, "/keyed", from(3), "X-Api-Key: "+key)
	x.wouldRefuse += 4
	x.send(s, 2, "/keyed", from(4))
	x.send(s, 9, "/health", from(1))
	x.ban(s, 3, "/.env", from(5))
	x.ban(s, 4, "/", from(5))
	if _, err := s.operator().Do(t.Context(), operator.Ban, operator.Command{Client: "198.51.100.0/24"}); err != nil {
		t.Fatal(err)
	}
	x.ban(s, 5, "/", "X-Forwarded-For: 198.51.100.7")
	if _, err := s.operator().Do(t.Context(), operator.Allow, operator.Command{Client: "203.0.113.99", For: 3600}); err != nil {
		t.Fatal(err)
	}
	x.send(s, 25, "/", "X-Forwarded-For: 203.0.113.99")
	if x.letIn != 20+4+5+9+25 || x.refused != 10+2+2+2+7+5 {
		t.Fatalf("clients saw %+v", x)
	}
	s.wantFigures(t, x)
	s.mustReload(figuresOptions() + site(strings.Replace(figuresConfig, "20/1h", "21/1h", 1)))
	x.send(s, 3, "/", from(6))
	s.wantFigures(t, x)
	zones, err := s.operator().Zones(t.Context())
	if err != nil || zones[1].Name != "both" || zones[1].Allowed != x.letIn-9-25+2+2+2 || zones[1].Refused != 10+4 {
		t.Errorf("a zone decides about what comes to it: got %+v, %v", zones, err)
	}
	s.stop()
	s.start()
	s.wantHistory(t, x)
	second := newServer(t, figuresOptions()+site(figuresConfig), "XDG_DATA_HOME="+s.data())
	second.start()
	x.send(s, 3, "/", from(7))
	x.send(second, 4, "/", from(8))
	x.wouldRefuse++
	second.awaitWouldRefuse(t, 1)
	second.stop()
	s.stop()
	s.start()
	s.wantHistory(t, x)

}

// usage returns the units and refusals of a client by limit, on all days.
func (s *server) usageOf(t *testing.T, client string) map[string]operator.UsageDay {
	t.Helper()
	used, err := s.operator().Usage(t.Context(), operator.UsageQuery{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]operator.UsageDay)
	for _, d := range used.Days { // two of them at midnight
		d.Units, d.Refused, d.Day = d.Units+by[d.Limit].Units, d.Refused+by[d.Limit].Refused, ""
		by[d.Limit] = d
	}
	return by
}

// API keys are billed for what they used, to the unit, whatever the sample of the heaviest says; in
// the list of the heaviest, too. Of other keys it is said how exact the number is.
func TestUsageIsWhatWasUsed(t *testing.T) {
	t.Parallel()
	backend := usageBackend(t)
	s := newServer(t, options("rate_limit {\nstore_timeout 1m\ntier free {\nlimit 1000/1h\n}\napi_keys {\nmissing deny\n}\n}\n")+site(`
		rate_limit {
			zone api {
				match path /api
				per api_key
				limit 100000/1h
				limit 299/24h name day
			}
			zone tokens {
				match path /tokens
				per api_key
				limit 100000/1h
				cost 10
				settle {http.reverse_proxy.header.X-Tokens}
			}
			zone costly {
				match path /costly
				per key {http.request.header.X-User}
				limit 1000000/1h
				cost 100
				settle {http.reverse_proxy.header.X-Tokens}
			}
			zone people {
				match path /people
				per key {http.request.header.X-User}
				limit 100000/1h
				cost 10
				settle {http.reverse_proxy.header.X-Tokens}
			}
		}
		reverse_proxy `+backend))
	key, err := apikeys.New(filepath.Join(filepath.Dir(s.rulesFile()), "api_keys"), apikeys.Holder{Name: "acme", Tier: "free"})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	for range 305 { // 6 are refused
		s.get("/api", "X-Api-Key: "+key)
	}
	for range 60 {
		s.get("/tokens", "X-Api-Key: "+key)
		s.get("/people", "X-User: alice")
	}
	for range 20 { // the place of a decision in the sample was its units
		s.get("/costly", "X-User: carol", "X-Want: 5000")
	}
	for range 1500 {
		s.get("/people", "X-User: bob")
	}
	s.stop()
	s.start()
	exact := operator.Precision{Exact: true}
	for limit, want := range map[string]operator.UsageDay{
		"api": {Units: 299, Precision: exact}, "day": {Units: 299, Refused: 6, Precision: exact}, "tokens": {Units: 420, Precision: exact},
	} {
		if got := s.usageOf(t, "api-key:acme")[limit]; got.Units != want.Units || got.Refused != want.Refused || got.Precision != want.Precision {
			t.Errorf("%s: got %+v, want %+v", limit, got, want)
		}
	}
	for user, want := range map[string]int64{"alice": 420, "bob": 10_500} {
		got := s.usageOf(t, "key:"+user)["people"]
		if got.Exact || got.Units < want/3 || got.Units > 3*want {
			t.Errorf("%s is said to have used about %d, want %d", user, got.Units, want)
		}
	}
	if got := s.usageOf(t, "key:carol")["costly"]; got.Units != 100_000 || got.Exact {
		t.Errorf("carol is said to have used %+v, want 100,000: all decisions were examined", got)
	}
	past, err := s.operator().History(t.Context(), operator.HistoryQuery{From: time.Now().Add(-2 * time.Hour), To: time.Now()})
	heaviest := make(map[string]operator.Heavy)
	for _, h := range past.Heaviest {
		if h.Units > heaviest[h.Limit].Units {
			heaviest[h.Limit] = h
		}
	}
	if h := heaviest["api"]; err != nil || h.Units != 299 || !h.Exact {
		t.Errorf("the heaviest are %+v, %v", past.Heaviest, err)
	}
	if h := heaviest["tokens"]; h.Units != 420 || !h.Exact {
		t.Errorf("the heaviest are %+v", past.Heaviest)
	}
	if h := heaviest["people"]; h.Units < 500 || h.Exact {
		t.Errorf("the heaviest are %+v", past.Heaviest)
	}
	s.wantCommand(t, 0, []string{"usage", "--key", "acme", "--format", "csv"}, ",api,api,299,0,true\n", ",api,day,299,6,true\n", ",tokens,tokens,420,0,true\n")
	s.wantCommand(t, 0, []string{"usage", "--key", "key:bob"}, "ESTIMATE\n", " about")
	s.wantCommand(t, 0, []string{"history"}, "ESTIMATE\n", " about")
}

// usageBackend is an app whose answers use 7 tokens, or as many as X-Want says.
func usageBackend(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	app := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Tokens", cmp.Or(r.Header.Get("X-Want"), "7"))
		_, _ = io.WriteString(w, "hello")
	})}
	go func() { _ = app.Serve(l) }()
	t.Cleanup(func() { _ = app.Close() })
	return l.Addr().String()
}
