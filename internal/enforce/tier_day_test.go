package enforce_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/fakeclock"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// dayClient is a client that sends as many requests as pass.
type dayClient struct {
	name, tier       string // of its key; "" for one without
	ip               string
	token            string
	path             string
	request          *http.Request // made once
	cost             int64         // of the path
	burst, perDay    int64         // expected units, if limited
	key              string
	admitted         []dayUnits
	first, firstDay  int64 // units at the first moment, and in the first 24 hours
	refusedForBurst  int
	refusedForTheDay time.Duration // time of the first such refusal, since the beginning
	wait             time.Duration // the Retry-After of that refusal
}

const (
	dayStep  = time.Minute // every burst refills in a step
	dayTries = 10          // of a client without limits
)

type dayUnits struct {
	at    time.Time
	units int64
}

// The table of the example, for two days: each client gets exactly the burst and the quota of its
// tier, and never more than the quota in any 24 hours, though it always tries for more.
func TestTableOfTiers(t *testing.T) {
	if testing.Short() {
		t.Skip("sends some hundred thousand requests")
	}
	clients := []*dayClient{
		{ip: "192.0.2.1", path: "/v1/time", cost: 1, burst: 5, perDay: 200},
		{ip: "192.0.2.2", path: "/v1/time", cost: 1, burst: 5, perDay: 200},
		{ip: "192.0.2.1", name: "student", tier: "free", path: "/v1/time", cost: 1, burst: 5, perDay: 200},
		{ip: "192.0.2.1", name: "university", tier: "researcher", path: "/v1/time", cost: 1, burst: 30, perDay: 5000},
		{ip: "192.0.2.1", name: "university/lab", tier: "researcher", path: "/v1/time", cost: 1, burst: 30, perDay: 5000},
		{ip: "192.0.2.1", name: "bank", tier: "compliance", path: "/v1/export/all", cost: 10, burst: 200, perDay: 100_000},
		{ip: "192.0.2.1", token: "a token of the services", path: "/v1/time", cost: 1},
	}
	if proof.IsOn() { // it sends more than all others
		clients = append(clients, &dayClient{ip: "192.0.2.1", name: "vendor", tier: "vendor", path: "/v1/export/all", cost: 10, burst: 1000, perDay: 1_000_000})
	}
	t.Setenv("SERVICE_TOKEN", "a token of the services")
	file := filepath.Join(t.TempDir(), "api_keys")
	for _, c := range clients {
		if c.name != "" {
			var err error
			if c.key, err = apikeys.New(file, apikeys.Holder{Name: c.name, Tier: c.tier}); err != nil {
				t.Fatal(err)
			}
		}
		c.prepare()
	}
	begin := time.Date(2026, 11, 22, 11, 59, 58, 7, time.UTC)
	clock := fakeclock.New(begin.UnixNano())
	h := exampleHandler(t, "../../examples/api-tiers.Caddyfile", file, clock)
	for since := time.Duration(0); since < 48*time.Hour; since += dayStep {
		clock.Now.Store(clock.Start + int64(since))
		for _, c := range clients {
			c.takeAll(t, h, begin.Add(since), since)
		}
	}
	for _, c := range clients {
		c.check(t)
	}
}

// tries returns how many requests the client sends at a time, unless it is refused earlier.
func (c *dayClient) tries() int64 {
	if c.token != "" {
		return dayTries
	}
	return c.burst/c.cost + 1
}

// takeAll sends requests until one is refused.
func (c *dayClient) takeAll(t *testing.T, h *enforce.Handler, now time.Time, since time.Duration) {
	t.Helper()
	units := int64(0)
	for range c.tries() {
		header, ok := c.send(t, h)
		if !ok {
			c.refused(t, header, since)
			break
		}
		units += c.cost
	}
	if since == 0 {
		c.first = units
	}
	if since < 24*time.Hour {
		c.firstDay += units
	}
	if units > 0 {
		c.admitted = append(c.admitted, dayUnits{now, units})
	}
}

func (c *dayClient) refused(t *testing.T, header http.Header, since time.Duration) {
	t.Helper()
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil {
		t.Fatalf("%s: Retry-After: %v", c.name, err)
	}
	if strings.Contains(header.Get("RateLimit"), `"daily"`) {
		if c.refusedForTheDay == 0 {
			c.refusedForTheDay, c.wait = since, time.Duration(seconds)*time.Second
		}
		return
	}
	c.refusedForBurst++
	if seconds != 1 {
		t.Fatalf("%s: a spent burst is to be tried again in %d s", c.name, seconds)
	}
}

// prepare makes the client's request.
func (c *dayClient) prepare() {
	c.request = httptest.NewRequest(http.MethodGet, c.path, nil)
	if c.key != "" {
		c.request.Header.Set("X-Api-Key", c.key)
	}
	if c.token != "" {
		c.request.Header.Set("X-Service-Token", c.token)
	}
}

// send sends a request, and reports whether it was admitted.
func (c *dayClient) send(t *testing.T, h *enforce.Handler) (http.Header, bool) {
	t.Helper()
	r := c.request
	ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: c.ip})
	ctx = context.WithValue(ctx, caddy.ReplacerCtxKey, caddy.NewEmptyReplacer())
	w, let := &nothing{http.Header{}}, false
	err := h.ServeHTTP(w, r.Clone(ctx), caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		let = true
		return nil
	}))
	if status, isStatus := err.(caddyhttp.HandlerError); err != nil && (!isStatus || status.StatusCode != http.StatusTooManyRequests) {
		t.Fatalf("%s: %v", c.name, err)
	}
	return w.header, let
}

// check checks the client's units of two days.
func (c *dayClient) check(t *testing.T) {
	t.Helper()
	if c.token != "" {
		if c.refusedForBurst > 0 || c.refusedForTheDay > 0 || c.firstDay != int64(dayTries*24*time.Hour/dayStep) {
			t.Errorf("a service was refused, or let in %d times only", c.firstDay)
		}
		return
	}
	if c.first != c.burst {
		t.Errorf("%s of %s has a burst of %d, want %d", c.name, c.tier, c.first, c.burst)
	}
	if c.firstDay != c.perDay {
		t.Errorf("%s of %s has %d units in the first day, want %d", c.name, c.tier, c.firstDay, c.perDay)
	}
	if c.refusedForBurst == 0 {
		t.Errorf("%s of %s was never refused for its burst", c.name, c.tier)
	}
	// The first units expire after a day and at most a slot of 24 minutes. Retry-After is rounded
	// up to a second.
	if forgotten := c.refusedForTheDay + c.wait; forgotten < 24*time.Hour || forgotten > 24*time.Hour+24*time.Minute+time.Second+enforce.MaxSpread {
		t.Errorf("%s of %s is to come back after %v", c.name, c.tier, forgotten)
	}
	var sum, all int64
	oldest := 0
	for _, now := range c.admitted {
		sum, all = sum+now.units, all+now.units
		for ; c.admitted[oldest].at.Add(24*time.Hour).Compare(now.at) <= 0; oldest++ {
			sum -= c.admitted[oldest].units
		}
		if sum > c.perDay {
			t.Fatalf("%s of %s has %d units in the 24 hours up to %v, want at most %d", c.name, c.tier, sum, now.at, c.perDay)
		}
	}
	if all != 2*c.perDay {
		t.Errorf("%s of %s has %d units in two days, want %d", c.name, c.tier, all, 2*c.perDay)
	}
}

// exampleHandler returns the first handler of an example, with another file of keys and with a clock.
func exampleHandler(t *testing.T, example, keys string, clock engine.Clock) *enforce.Handler {
	t.Helper()
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	app, config := handlertest.Read(t, strings.Replace(string(text), "\tfile examples/api_keys", "\tfile "+keys, 1))
	h := handlertest.Provision(t, handlertest.Compile(t, app), config)
	h.Answer.Routed = true // as with error routes
	startClocked(t, h, clock)
	return h
}
