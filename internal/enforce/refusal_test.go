package enforce_test

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Callers with a shared key all got the same Retry-After, and returned together.
func TestCrowdIsToldDifferentTimes(t *testing.T) {
	for name, limit := range map[string]config.Limit{
		"slots of a minute":         {Amount: 1, Window: hour},
		"one window for all":        {Amount: 1, Window: caddy.Duration(10 * time.Minute), Algorithm: "fixed"},
		"a unit every five minutes": {Amount: 12, Window: hour, Burst: 1, Algorithm: "token_bucket"},
	} {
		h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Per: enforce.PerEveryone, Limits: []config.Limit{limit}}}})
		ask(h, "/", "192.0.2.1")
		part := 0.0
		h.Random = func() float64 { return part }
		told := func() int {
			refused := ask(h, "/", "192.0.2.2")
			n, err := strconv.Atoi(refused.answer.Header().Get("Retry-After"))
			if err != nil || refused.answer.Code != http.StatusTooManyRequests {
				t.Fatalf("%s: answered with %d: %v", name, refused.answer.Code, err)
			}
			return n
		}
		shortest := told()
		part = 0.999
		longest := told()
		if added := longest - shortest; added < min(shortest/10, 58)-2 || added > 60 {
			t.Errorf("%s: told to wait for %d to %d seconds", name, shortest, longest)
		}
	}
}

// The extension stays within the slot that frees the units, and short limits have an exact
// Retry-After.
func TestSpreadStaysWithinASlot(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		p := limiter.Params{Algorithm: limiter.Algorithm(random.IntN(3)), Amount: 1 + random.Int64N(1000), Window: limiter.MinWindow + time.Duration(random.Int64N(int64(limiter.MaxWindow-limiter.MinWindow)))}
		if random.IntN(2) == 0 {
			p.Window = limiter.MinWindow + p.Window%(2*time.Hour)
		}
		l, err := limiter.New(p)
		if err != nil {
			t.Fatal(err)
		}
		slot := map[limiter.Algorithm]time.Duration{limiter.Sliding: p.Window / 60, limiter.Fixed: p.Window, limiter.TokenBucket: l.Refill(1)}[p.Algorithm]
		retry := time.Duration(1 + random.Int64N(int64(p.Window)))
		h := &enforce.Handler{Random: func() float64 { return 0.9999999 }}
		got := h.Spread(retry, &l)
		if got < retry || got > retry && (got-retry > slot-time.Second || got-retry > retry/10 || got-retry > enforce.MaxSpread) {
			t.Fatalf("%+v: %v becomes %v, and a slot has %v", p, retry, got, slot)
		}
		if h.Random = func() float64 { return 0 }; h.Spread(retry, &l) != retry {
			t.Fatalf("%+v: %v becomes %v where nothing is to be added", p, retry, h.Spread(retry, &l))
		}
	}
	l, err := limiter.New(limiter.Params{Amount: 5, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	h := &enforce.Handler{Random: func() float64 { return 0.999 }}
	for _, retry := range []time.Duration{1, time.Second, time.Minute} {
		if got := h.Spread(retry, &l); got != retry {
			t.Errorf("5/1m: %v becomes %v", retry, got)
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

// A cost that only a lowered limit has no room for may pass later, so it isn't forbidden.
func TestCostAboveALoweredLimitIsA429(t *testing.T) {
	p := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "z", Limits: []config.Limit{{Amount: 10, Window: hour}}}}}).Zones[0].SiteLimits.Own.Policies[0]
	for cost, want := range map[int64]int{0: 429, 10: 429, 11: 403} {
		r := enforce.Refusal{Policy: p, Retry: limiter.Never, Reason: engine.TooCostly, Cost: cost}
		if got := r.Status(); got != want {
			t.Errorf("a cost of %d, where the limit is 10 in full and lower now: %d, want %d", cost, got, want)
		}
	}
}
