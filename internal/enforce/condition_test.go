package enforce_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// loaded returns a handler with a conditional zone of one request an hour, and another zone for the
// path /other.
func loaded(t *testing.T, when ...config.Condition) *enforce.Handler {
	return handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{
		{Name: "z", Per: "ip", Limits: []config.Limit{{Amount: 1, Window: hour}}, When: when},
		{Name: "other", Per: "everyone", Limits: []config.Limit{{Amount: 1 << 30, Window: hour}}},
	}})
}

// refusedOf returns how many of n requests of a client are refused.
func refusedOf(h *enforce.Handler, client string, n int) (refused int) {
	for range n {
		if w, err := handlertest.AskAs(context.Background(), h, client, nil, handlertest.Answering(200)); err != nil || w.Code == http.StatusTooManyRequests {
			refused++
		}
	}
	return refused
}

// A zone with a condition counts nothing and refuses nothing without high load.
func TestZoneAppliesUnderLoadOnly(t *testing.T) {
	for name, when := range map[string]config.Condition{
		"its own requests": {Requests: 100, Window: caddy.Duration(time.Hour)},
	} {
		h := loaded(t, config.Condition{Requests: 1 << 40, Window: caddy.Duration(time.Second)}, when)
		if n := refusedOf(h, "192.0.2.1", 100); n != 0 {
			t.Errorf("%s: %d of the first 100 were refused, want none", name, n)
		}
		if n := refusedOf(h, "192.0.2.1", 10); n != 9 {
			t.Errorf("%s: %d of ten more were refused, want all but the first", name, n)
		}
		if n := refusedOf(h, "192.0.2.2", 1); n != 0 {
			t.Errorf("%s: the first request of another client was refused", name)
		}
		zones := zonesShown(t, h)
		if z := zones[0]; !z.Applies() || len(z.When) != 2 || !z.When[1].Holds || z.When[1].Since == nil || z.When[0].Since != nil {
			t.Errorf("%s: operators see %+v", name, z.When)
		}
	}
}

func TestZoneAppliesWhileTheUpstreamIsSlow(t *testing.T) {
	h := loaded(t, config.Condition{SlowerThan: caddy.Duration(time.Minute)})
	for _, took := range []struct {
		time    time.Duration
		refused int
	}{{time.Second, 0}, {time.Hour, 4}} {
		for range 1000 { // they outnumber the test's own answers
			h.Zones[0].Load.Latencies[0].Add(took.time, h.Config.Use().Engine.Now())
		}
		if n := refusedOf(h, "192.0.2.1", 5); n != took.refused {
			t.Errorf("answers take %v: %d of five were refused, want %d", took.time, n, took.refused)
		}
	}
}

// The time until an answer begins is measured, for every way of answering.
func TestAnswersOfUpstreamsAreTimed(t *testing.T) {
	for name, next := range map[string]caddyhttp.HandlerFunc{
		"header": handlertest.Answering(200),
		"hints":  handlertest.Answering(103, 200),
		"body":   func(w http.ResponseWriter, _ *http.Request) error { _, err := fmt.Fprint(w, "x"); return err },
		"flush":  func(w http.ResponseWriter, _ *http.Request) error { return http.NewResponseController(w).Flush() },
		"upgrade": func(w http.ResponseWriter, _ *http.Request) error {
			_, _, err := http.NewResponseController(w).Hijack()
			return err
		},
		"nothing":  func(http.ResponseWriter, *http.Request) error { return nil },
		"an error": handlertest.Failing(caddyhttp.Error(502, nil)),
	} {
		h := loaded(t, config.Condition{SlowerThan: caddy.Duration(time.Millisecond)})
		for range 9 {
			h.Zones[0].Load.Latencies[0].Add(time.Hour, h.Config.Use().Engine.Now())
		}
		if got := h.Zones[0].Load.Latencies[0].Load(h.Config.Use().Engine.Now()); got != 0 {
			t.Fatalf("%s: nine answers are enough to say something: %v", name, got)
		}
		_, _ = handlertest.AskAs(context.Background(), h, "192.0.2.1", nil, next)
		if got := h.Zones[0].Load.Latencies[0].Load(h.Config.Use().Engine.Now()); got == 0 {
			t.Errorf("%s: the answer wasn't timed", name)
		}
	}
}

// A config that replaces another one knows the load that the other has measured. What operators and
// metrics see follows the load without requests.
func TestLoadOutlivesAReload(t *testing.T) {
	when := config.Condition{Requests: 3, Window: caddy.Duration(time.Hour)}
	before := loaded(t, when)
	refusedOf(before, "192.0.2.1", 10)
	after := loaded(t, when)
	if !after.Zones[0].Applies(after.Config.Now()) || appliesInMetrics(t, after) != 1 {
		t.Error("the zone applies no longer after a reload")
	}
	if n := refusedOf(after, "192.0.2.2", 5); n != 4 {
		t.Errorf("%d of five requests were refused after a reload, want all but the first", n)
	}
	more := loaded(t, config.Condition{Requests: 14, Window: caddy.Duration(time.Hour)})
	if refusedOf(more, "192.0.2.3", 1); appliesInMetrics(t, more) != 1 {
		t.Error("another number of requests has lost the fifteen that were counted")
	}
	calm := loaded(t, config.Condition{SlowerThan: hour})
	if appliesInMetrics(t, calm) != 0 {
		t.Error("a new condition holds")
	}
}

// zonesShown returns the zones as operators see them.
func zonesShown(t *testing.T, h *enforce.Handler) []operator.Zone {
	t.Helper()
	zones, err := handlertest.Operator(h).Zones(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return zones
}

// appliesInMetrics returns what metrics say of the zone z.
func appliesInMetrics(t *testing.T, h *enforce.Handler) float64 {
	t.Helper()
	families, err := h.Ctx.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "caddy_rate_limit_zone_applies" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// A question about a request doesn't count as a request.
func TestQuestionsAreNoLoad(t *testing.T) {
	h := loaded(t, config.Condition{Requests: 1, Window: caddy.Duration(time.Hour)})
	e := h.Begin(handlertest.Request(t, http.MethodGet, "/")).By(enforce.Forecast{Config: h.Config})
	defer e.Release()
	for range 5 {
		if err := e.Collect(); err != nil {
			t.Fatal(err)
		}
	}
	if h.Zones[0].Applies(h.Config.Now()) || len(e.Debits) != 5 { // of the other zone
		t.Errorf("the zone applies, or %d debits aren't 5", len(e.Debits))
	}
}
