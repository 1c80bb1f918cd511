package enforce_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// delaying returns a handler that delays requests over a limit.
func delaying(t *testing.T, limit config.Limit, most time.Duration) *enforce.Handler {
	return handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
		Name: t.Name(), Per: "ip", Limits: []config.Limit{limit}, OnExceeded: "delay", MaxDelay: caddy.Duration(most),
	}}})
}

// Simultaneous requests pass as their units become free, and none is refused.
func TestRequestsWaitForTheirUnits(t *testing.T) {
	const window = 100 * time.Millisecond
	for name, test := range map[string]struct {
		config.Limit
		least time.Duration // the least time for eight requests
	}{
		"token bucket": {config.Limit{Amount: 1, Window: caddy.Duration(window), Burst: 1}, 7 * window},
		"sliding":      {config.Limit{Amount: 4, Window: caddy.Duration(window)}, window},
		"fixed":        {config.Limit{Amount: 4, Window: caddy.Duration(window), Algorithm: "fixed"}, 0},
	} {
		h := delaying(t, test.Limit, time.Minute)
		began := time.Now()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); handlertest.IsRefused(w, err) {
					t.Errorf("%s: one was refused: %v", name, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took < test.least {
			t.Errorf("%s: all took %v, want at least %v", name, took, test.least)
		}
	}
}

// As many requests wait as units become free in time: in a longer delay than the window, those of
// several windows.
func TestLineHasRoomForAllThatPassInTime(t *testing.T) {
	h := delaying(t, config.Limit{Amount: 3, Window: caddy.Duration(100 * time.Millisecond)}, time.Minute)
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); handlertest.IsRefused(w, err) {
				t.Errorf("one was refused: %v", err)
			}
		})
	}
	all.Wait()
}

// Waiting is no violation. Being refused for asking too much is.
func TestWaitingIsNoViolation(t *testing.T) {
	for most, want := range map[time.Duration]bool{time.Minute: false, time.Millisecond: true} {
		h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
			Name: fmt.Sprint(t.Name(), most), Per: "client", Limits: []config.Limit{{Amount: 4, Window: caddy.Duration(300 * time.Millisecond), Burst: 2}},
			OnExceeded: "delay", MaxDelay: caddy.Duration(most), Ban: &config.Ban{After: 1, Within: hour, For: hour},
		}}})
		refused := 0
		for range 8 {
			if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); handlertest.IsRefused(w, err) {
				refused++
			}
		}
		if (refused > 0) != want {
			t.Errorf("delay %v: %d were refused, want some %t", most, refused, want)
		}
		banned := slices.ContainsFunc(h.Config.Use().Engine.Clients(engine.ClientsQuery{N: 9}), func(c engine.ClientRecord) bool { return len(c.Record.Past) > 0 })
		if banned != want {
			t.Errorf("delay %v: a violation is noted %t, want %t", most, banned, want)
		}
	}
}

func TestNobodyWaitsForTooLong(t *testing.T) {
	h := delaying(t, config.Limit{Amount: 1, Window: hour}, time.Minute)
	for i := range 3 {
		w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200))
		if handlertest.IsRefused(w, err) != (i > 0) {
			t.Errorf("request %d: got %d, %v", i, w.Code, err)
		}
	}
}

// The place in line of a client that leaves becomes free, and so does the unit that it waited for.
func TestClientsThatLeaveTheLineTakeNothing(t *testing.T) {
	h := delaying(t, config.Limit{Amount: 1, Window: caddy.Duration(time.Second), Burst: 1}, time.Minute)
	if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); handlertest.IsRefused(w, err) {
		t.Fatal("the first is refused")
	}
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_, err := handlertest.Ask(ctx, h, handlertest.Answering(200))
		cancel()
		if status, ok := errors.AsType[caddyhttp.HandlerError](err); !ok || status.StatusCode != 499 {
			t.Errorf("a client that has left: got %v", err)
		}
	}
	if h.Zones[0].Line.Len() != 0 {
		t.Error("somebody is in line still")
	}
	if w, err := handlertest.Ask(context.Background(), h, handlertest.Answering(200)); handlertest.IsRefused(w, err) {
		t.Error("the next one is refused")
	}
}

// A request over a limit passes, and the upstream is notified; the client's values of the field are
// removed.
func TestExceededRequestsPass(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{
		Name: "z", Per: "ip", Limits: []config.Limit{{Amount: 2, Window: hour}}, OnExceeded: "pass", PassHeader: "x-over-limit",
	}, {
		Name: "quiet", Per: "ip", Limits: []config.Limit{{Amount: 1, Window: hour}}, OnExceeded: "pass",
	}}})
	for i := range 5 {
		var told []string
		r := handlertest.Request(t, http.MethodGet, "/")
		r.Header.Set("X-Over-Limit", "forged")
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
		err := h.ServeHTTP(new(handlertest.Recorder), r, caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
			told = r.Header["X-Over-Limit"]
			return nil
		}))
		want := ""
		if i >= 2 {
			want = "z"
		}
		if err != nil || strings.Join(told, "|") != want {
			t.Errorf("request %d: got %v, the upstream is told %q, want %q", i, err, told, want)
		}
	}
}
