package tally

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Caddy's header directive writes into the slices of header values. That must not affect other
// requests.
func TestHeaderValuesAreTheResponsesOwn(t *testing.T) {
	h := benchHandler(t, config.Limit{Amount: 10, Window: 3600e9})
	spoil := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		for _, values := range w.Header() {
			for i := range values {
				values[i] = "spoiled"
			}
		}
		return nil
	})
	for range 2 {
		r, vars, w := benchRequest()
		vars[caddyhttp.ClientIPVarKey] = "192.0.2.1"
		look := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			if got := w.Header().Get("RateLimit-Policy"); got != `"bench";q=10;w=3600` {
				t.Errorf("RateLimit-Policy: %s", got)
			}
			return spoil(w, r)
		})
		if err := h.ServeHTTP(w, r, look); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJitterStaysADuration(t *testing.T) {
	h := &enforce.Handler{Jitter: 1e300, Random: func() float64 { return 0.999 }}
	for _, retry := range []time.Duration{0, 1, time.Minute, limiter.MaxWindow} {
		if got := h.Spread(retry, new(limiter.Limit)); got < max(retry, 1) || got > retry+enforce.MaxJitter+1 {
			t.Errorf("%v with the largest jitter becomes %v", retry, got)
		}
	}
	if got := h.Spread(limiter.Never, new(limiter.Limit)); got != limiter.Never {
		t.Errorf("never becomes %v", got)
	}
}

func TestZonesThatCannotBe(t *testing.T) {
	for config, want := range map[string]string{
		`{"zones":[{"name":"a","limits":[{"amount":1,"window":"1m"}]},{"name":"a","limits":[{"amount":2,"window":"1m"}]}]}`: "two of this name",
		`{"zones":[{"name":"a","limits":[{"amount":1,"window":"1m"}]}],"rate_limits":{"a":{"window":"1m","max_events":1}}}`: "two of this name",
		`{"rate_limits":{"a":null}}`:                          "null",
		`{"zones":[null]}`:                                    "null",
		`{"zones":[{"limits":[{"amount":1,"window":"1m"}]}]}`: "name",
		`{"zones":[{"name":"a"}]}`:                            "window must be greater than zero",
		`{"zones":[{"name":"a","per":"ip"}]}`:                 "needs a limit",
		`{"zones":[{"name":"a","limits":[{"amount":1,"window":"1m"}],"window":"1m","max_events":1}]}`:                     "exclude one another",
		`{"zones":[{"name":"a","limits":[{"amount":1,"window":"1m","name":"x"},{"amount":2,"window":"2m","name":"x"}]}]}`: "two limits are named",
	} {
		var h Handler
		if err := caddy.StrictUnmarshalJSON([]byte(config), &h); err != nil {
			t.Fatal(err)
		}
		if err := h.Provision(newContext(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", config, err, want)
		}
	}
}

// mholt's options can be combined with `per`.
func TestPeerWordsWithPer(t *testing.T) {
	var h Handler
	config := `{"zones":[{"name":"a","per":"ip","window":"1m","max_events":7}]}`
	if err := json.Unmarshal([]byte(config), &h); err != nil {
		t.Fatal(err)
	}
	if err := h.Provision(newContext(t)); err != nil {
		t.Fatal(err)
	}
	if p := h.run.Zones[0].Own.Policies[0]; p.Amount() != 7 || p.Window() != time.Minute || h.run.Zones[0].Per != enforce.PerIP {
		t.Errorf("%s gives %s per %s", config, p.Field, h.run.Zones[0].Per)
	}
}
