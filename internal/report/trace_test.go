package report_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/tracing"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	tally "github.com/caddy-tally/caddy-tally"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// recordedSpan is a span that keeps its attributes.
type recordedSpan struct {
	noop.Span
	recording  bool
	attributes map[attribute.Key]any
}

func (s *recordedSpan) IsRecording() bool { return s.recording }

func (s *recordedSpan) SetAttributes(attributes ...attribute.KeyValue) {
	for _, a := range attributes {
		s.attributes[a.Key] = a.Value.AsInterface()
	}
}

func TestSpansSayWhatWasDecided(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 2, Window: hour, Name: "two"}}}}})
	h.Traced = true
	send := func(span *recordedSpan) {
		w := httptest.NewRecorder()
		r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/", nil), caddy.NewReplacer(), w, new(caddyhttp.Server))
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
		r = r.WithContext(trace.ContextWithSpan(context.WithoutCancel(r.Context()), span))
		h.ServeHTTP(w, r, handlertest.Answering(200))
	}
	for i, want := range []map[attribute.Key]any{
		{"rate_limit.zone": "z", "rate_limit.limit": "two", "rate_limit.outcome": "allowed", "rate_limit.remaining": int64(1)},
		{"rate_limit.zone": "z", "rate_limit.limit": "two", "rate_limit.outcome": "allowed", "rate_limit.remaining": int64(0)},
		{"rate_limit.zone": "z", "rate_limit.limit": "two", "rate_limit.outcome": "over_limit", "rate_limit.remaining": int64(0)},
		{"rate_limit.zone": "z", "rate_limit.limit": "two", "rate_limit.outcome": "blocked", "rate_limit.remaining": int64(0)},
	} {
		span := &recordedSpan{recording: true, attributes: make(map[attribute.Key]any)}
		send(span)
		for key, value := range want {
			if span.attributes[key] != value {
				t.Errorf("request %d: %s is %v, want %v", i, key, span.attributes[key], value)
			}
		}
		if len(span.attributes) != len(want) {
			t.Errorf("request %d: the attributes are %v", i, span.attributes)
		}
	}
	unrecorded := &recordedSpan{attributes: make(map[attribute.Key]any)}
	send(unrecorded)
	if len(unrecorded.attributes) > 0 {
		t.Errorf("a span that is not recorded has %v", unrecorded.attributes)
	}
}

// The handler looks for spans only if a handler may begin one.
func TestTracingIsFoundInTheConfig(t *testing.T) {
	const ours = `{"handler": "rate_limit", "zones": [{"name": "z", "limits": [{"amount": 1, "window": "1h"}]}]}`
	for handlers, want := range map[string]bool{
		ours: false,
		`{"handler": "tracing", "span": "s"}, ` + ours:                                       true,
		`{"handler": "subroute", "routes": [{"handle": [{"handler": "tracing"}]}]}, ` + ours: true,
		ours + `, {"handler": "tracing"}`:                                                    true,
	} {
		ctx, err := caddy.ProvisionContext(&caddy.Config{AppsRaw: caddy.ModuleMap{
			"http":       json.RawMessage(`{"servers": {"s": {"routes": [{"handle": [` + handlers + `]}]}}}`),
			"rate_limit": json.RawMessage(`{"store": {"engine": "memory"}}`),
		}})
		if err != nil {
			t.Fatal(err)
		}
		app, err := ctx.App("http")
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, handler := range app.(*caddyhttp.App).Servers["s"].Routes[0].Handlers {
			if h, ok := handler.(*tally.Handler); ok {
				found = h.Enforcer().Traced
			}
		}
		if found != want {
			t.Errorf("%s: got %v, want %v", handlers, found, want)
		}
	}
}
