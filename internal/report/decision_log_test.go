package report_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/report"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// observed returns a handler with a decision log, and the log's lines.
func observed(t *testing.T, app *config.App, zones ...*config.Zone) (*enforce.Handler, *observer.ObservedLogs) {
	t.Helper()
	h := handlertest.Start(t, app, &config.Handler{Zones: zones})
	core, lines := observer.New(zap.DebugLevel)
	handlertest.LogDecisions(h, zap.New(core))
	return h, lines
}

const hour = handlertest.Hour

// get makes a handler answer a request.
func get(h *enforce.Handler, path, client string) (*http.Request, *httptest.ResponseRecorder, error) {
	return handlertest.Get(h, path, client, handlertest.Answering())
}

func TestDecisionLogOfRefusals(t *testing.T) {
	h, lines := observed(t, &config.App{DecisionLog: new(config.DecisionLog)}, &config.Zone{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour, Name: "one"}}})
	get(h, "/login?secret=1", "192.0.2.1")
	get(h, "/login?secret=1", "192.0.2.1")
	blocked, _, _ := get(h, "/log%22in?secret=1", "192.0.2.1")
	if n := lines.Len(); n != 2 {
		t.Fatalf("there are %d lines, want 2 for 2 refusals", n)
	}
	first, second := lines.All()[0].ContextMap(), lines.All()[1].ContextMap()
	wait, ok := second["wait"].(time.Duration)
	if !ok || wait <= 0 || wait > time.Hour+time.Minute+time.Minute { // and a slot
		t.Errorf("wait is %v", second["wait"])
	}
	delete(second, "wait")
	for field, want := range map[string]any{
		"client_ip": "192.0.2.1", "initiator": "unsaid", "method": "GET", "host": "example.com", "uri": "/log%22in", "user_agent": handlertest.Browser,
		"zone": "z", "limit": "one", "outcome": "blocked", "status": int64(429), "cost": int64(1), "remaining": int64(0), "reference": handlertest.ReferenceOf(blocked),
	} {
		if second[field] != want {
			t.Errorf("%s is %v, want %v", field, second[field], want)
		}
		delete(second, field)
	}
	if len(second) > 0 {
		t.Errorf("there are other fields: %v", second)
	}
	if first["outcome"] != "over_limit" || lines.All()[0].Message != "refused" {
		t.Errorf("the first line is %q, %v", lines.All()[0].Message, first)
	}
}

// For all requests, lines are short, and JSON with unique field names.
func TestDecisionLogOfHostileClients(t *testing.T) {
	h, lines := observed(t, &config.App{DecisionLog: new(config.DecisionLog)}, &config.Zone{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}})
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	hostile := "\",\"client_ip\":\"198.51.100.1\"\r\n\x00\xff" + strings.Repeat("\u202e\xf0\x9f", 1<<18)
	for range 2 {
		r, _, _ := get(h, "/"+strings.Repeat("%22", 1<<18), "192.0.2.1")
		r.Header["User-Agent"] = []string{hostile}
		r.Host = hostile
		r.Method = strings.Repeat("X", 1<<20)
		e := h.Begin(r)
		h.Config.Reporter.(*report.Reporter).Refused(&e.Verdict, &enforce.Refusal{Config: h.Config, Policy: h.Zones[0].SiteLimits.Own.Policies[0]}, time.Now)
		e.Release()
	}
	for _, line := range lines.All() {
		buffer, err := encoder.EncodeEntry(line.Entry, line.Context)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(buffer.Bytes(), &fields); err != nil {
			t.Fatal(err)
		}
		if n := buffer.Len(); n > 6000 || strings.Count(buffer.String(), "\n") != 1 || strings.Count(buffer.String(), `"client_ip":"`) != 1 || fields["client_ip"] != "192.0.2.1" {
			t.Errorf("a line of %d bytes is %.3000s", n, buffer)
		}
	}
}

func TestDecisionLogSamplesAllowedRequests(t *testing.T) {
	for sample, want := range map[int]int{0: 0, 1: 8, 4: 2} {
		t.Run(fmt.Sprint(sample), func(t *testing.T) {
			h, lines := observed(t, &config.App{DecisionLog: &config.DecisionLog{Sample: sample}}, &config.Zone{Name: "z", Limits: []config.Limit{{Amount: 100, Window: hour}}})
			drawn := 0.0
			h.Random = func() float64 { drawn++; return (drawn - 1) / 8 }
			for range 8 {
				get(h, "/", "192.0.2.1")
			}
			if n := lines.FilterMessage("allowed").Len(); n != want || n != lines.Len() {
				t.Fatalf("there are %d lines for 8 allowed requests, %d in all, want %d", n, lines.Len(), want)
			}
			for i, line := range lines.All() {
				fields := line.ContextMap()
				if fields["outcome"] != "allowed" || fields["zone"] != "z" || fields["remaining"] != int64(99-i) || fields["reference"] != nil {
					t.Errorf("line %d is %v", i, fields)
				}
			}
		})
	}
}

// Nobody can fill a disk. Clients that are refused over and over don't keep others from
// having a line.
func TestDecisionLogIsBounded(t *testing.T) {
	h, lines := observed(t, &config.App{DecisionLog: new(config.DecisionLog)}, &config.Zone{Name: "z", Limits: []config.Limit{{Amount: 1, Window: hour}}})
	r, _, _ := get(h, "/", "192.0.2.1")
	e := h.Begin(r)
	defer e.Release()
	clock := time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC)
	now := func() time.Time { return clock }
	repeated := &enforce.Refusal{Config: h.Config, Policy: h.Zones[0].SiteLimits.Own.Policies[0], Reference: "made"}
	for range report.DecisionsPerSecond + 500 {
		h.Config.Reporter.(*report.Reporter).Refused(&e.Verdict, repeated, now)
	}
	if n := lines.Len(); n != report.DecisionsPerSecond {
		t.Errorf("there are %d lines in a second, want %d", n, report.DecisionsPerSecond)
	}
	fresh := *repeated
	fresh.Fresh = true
	h.Config.Reporter.(*report.Reporter).Refused(&e.Verdict, &fresh, now)
	if n := lines.Len(); n != report.DecisionsPerSecond+1 {
		t.Error("a client that becomes blocked has no line")
	}
	clock = clock.Add(time.Second)
	h.Config.Reporter.(*report.Reporter).Refused(&e.Verdict, repeated, now)
	if left := lines.All()[lines.Len()-1].ContextMap()["left_out"]; left != int64(500) {
		t.Errorf("the next line says that %v were left out, want 500", left)
	}
}
