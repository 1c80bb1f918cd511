package enforce_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// The operator is asked once about what never happens, also by concurrent requests and after reloads. The question
// stays until it happens.
func TestWhatNeverHappensIsAskedAboutOnce(t *testing.T) {
	core, logged := observer.New(zap.WarnLevel)
	var running *enforce.Config
	load := func() (*enforce.Config, *enforce.Never) {
		cfg := enforce.NewConfig(zap.New(core), "")
		if running != nil {
			cfg.Follow(running)
		}
		running = cfg
		return cfg, cfg.Never(t.Name(), 10, 0, advice.Advice{Problem: "never", Fix: "more", Source: "Caddyfile:5"})
	}
	cfg, n := load()
	for range 9 {
		cfg.Note(n, false)
	}
	if logged.Len() != 0 || len(cfg.Advice.All()) != 0 {
		t.Fatalf("asked after 9: %v", logged.All())
	}
	cfg, n = load() // a reload goes on
	var requests sync.WaitGroup
	for range 8 {
		requests.Go(func() {
			for range 500 {
				cfg.Note(n, false)
			}
		})
	}
	requests.Wait()
	after, again := load()
	after.Note(again, false)
	if logged.Len() != 1 || len(cfg.Advice.All()) != 1 || len(after.Advice.All()) != 1 {
		t.Errorf("asked %d times; %v, and after a reload %v", logged.Len(), cfg.Advice.All(), after.Advice.All())
	}
	if testing.AllocsPerRun(100, func() { after.Note(again, false) }) != 0 {
		t.Error("a request allocates after the question")
	}
	after.Note(again, true)
	if last, n := load(); len(after.Advice.All()) != 0 || len(last.Advice.All()) != 0 {
		t.Errorf("it has happened, and still asked is %v", after.Advice.All())
	} else if last.Note(n, false); logged.Len() != 1 {
		t.Error("asked about what has happened")
	}
}

// questions returns the questions to the operator of a handler, without the advice from when it was loaded.
func questions(h *enforce.Handler, about string) (problems []string) {
	for _, a := range h.Config.Advice.All() {
		if strings.HasPrefix(a.Problem, about) {
			problems = append(problems, a.Zone+" at "+a.Source+": "+a.Problem+"; write "+a.Fix)
		}
	}
	return problems
}

// A zone that no request belongs to is asked about after 10,000 requests of its site, or three days; one that a
// single request belonged to isn't, and neither is one that is for load.
func TestZonesWithoutRequestsAreAskedAbout(t *testing.T) {
	text := func(zone string) *config.Handler {
		return handlertest.Parse(t, "zone "+t.Name()+zone+"1 {\nmatch POST /logni\nlimit 5/1m\n}\nzone "+t.Name()+zone+"2 {\nmatch POST /reset\nlimit 5/1m\n}\nzone "+t.Name()+zone+"3 {\nmatch /busy\nwhen cpu over 99%\nlimit 5/1m\n}")
	}
	h := handlertest.Start(t, new(config.App), text("a"))
	ask := func(h *enforce.Handler, method, path string) {
		r := handlertest.Request(t, method, path)
		e := h.Begin(r)
		if _, err := e.Decide(); err != nil {
			t.Fatal(err)
		}
		e.Release()
	}
	ask(h, http.MethodPost, "/reset")
	for range 9_998 {
		ask(h, http.MethodGet, "/")
	}
	if early := questions(h, "match: "); len(early) != 0 {
		t.Errorf("asked early: %q", early)
	}
	ask(h, http.MethodGet, "/")
	if all := questions(h, "match: "); len(all) != 1 || !strings.HasPrefix(all[0], t.Name()+"a1 at Caddyfile:3: match: no request has been in this zone") {
		t.Errorf("asked %q", all)
	}

	quiet := handlertest.Start(t, new(config.App), text("b"))
	ask(quiet, http.MethodGet, "/")
	for _, z := range quiet.Zones[:2] {
		z.Seen.Age(3*24*time.Hour - time.Minute)
	}
	ask(quiet, http.MethodPost, "/reset")
	if early := questions(quiet, "match: "); len(early) != 0 {
		t.Errorf("asked early: %q", early)
	}
	quiet.Zones[0].Seen.Age(2 * time.Minute)
	ask(quiet, http.MethodGet, "/")
	if all := questions(quiet, "match: "); len(all) != 1 {
		t.Errorf("asked after three days: %q", all)
	}
	ask(quiet, http.MethodPost, "/logni")
	if all := questions(quiet, "match: "); len(all) != 0 {
		t.Errorf("asked about a zone that has a request: %q", all)
	}
}

// A key, a cost or a tier that was empty in all of a thousand requests is asked about.
func TestWhatIsAlwaysEmptyIsAskedAbout(t *testing.T) {
	const field, limit = "{http.request.header.X-Tenant}", "\nlimit 100000/1m"
	app := &config.App{Tiers: []*config.Tier{{Name: "acme", Limits: []config.Limit{{Amount: 100000, Window: hour}}}, {Name: "free", Limits: []config.Limit{{Amount: 100000, Window: hour}}}}}
	for _, tt := range []struct {
		name, options, about string
		sent                 int // the request that has the field
		value                string
		want                 int
	}{
		{"a key never", "per key " + field + limit, "key: " + field + " was empty", 0, "", 1},
		{"a key once", "per key " + field + limit, "key: ", 700, "acme", 0},
		{"a cost never", "cost " + field + limit, "cost: " + field + " was empty", 0, "", 1},
		{"a cost once", "cost " + field + limit, "cost: ", 700, "7", 0},
		{"a wrong cost once", "cost " + field + limit, "cost: ", 700, "x", 0},
		{"a cost of some never", "cost " + field + " path /\ncost 5 path /large" + limit, "cost: " + field + " was empty", 0, "", 1},
		{"a cost of others", "cost " + field + " path /large\ncost 1" + limit, "cost: ", 0, "", 0},
		{"a tier never", "tier " + field + " free", "tier: " + field + " never named", 0, "", 1},
		{"a tier once", "tier " + field + " free", "tier: ", 700, "acme", 0},
		{"an unknown tier", "tier " + field + " free", "tier: " + field + " never named", 700, "Acme", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := handlertest.Start(t, app, handlertest.Parse(t, "zone "+strings.ReplaceAll(tt.name, " ", "-")+" {\n"+tt.options+"\n}"))
			for i := range 1000 {
				if all := questions(h, tt.about); len(all) != 0 {
					t.Fatalf("asked after %d: %q", i, all)
				}
				fields := []string{}
				if i > 0 && i == tt.sent {
					fields = []string{"X-Tenant", tt.value}
				}
				if _, _, err := handlertest.Get(h, "/", "192.0.2.1", handlertest.Answering(200), fields...); err != nil && tt.value != "x" {
					t.Fatal(err)
				}
			}
			if all := questions(h, tt.about); len(all) != tt.want {
				t.Errorf("asked %q", all)
			}
		})
	}
}

// A puzzle that 50 visitors got and nobody solved is asked about, until somebody solves it.
func TestPuzzlesThatNobodySolvesAreAskedAbout(t *testing.T) {
	app := &config.App{Session: &config.Session{MaxPerPrefix: 1000, Path: "/never/", Challenge: &config.Challenge{Difficulty: 1}}}
	h := handlertest.Start(t, app, handlertest.Parse(t, "zone "+t.Name()+" {\nper client\nlimit 1/1h\non_exceeded challenge\n}"))
	for i := range 50 {
		visitor := fmt.Sprintf("10.0.%d.1", i)
		serve(t, h, http.MethodGet, "/", visitor, nil)
		if all := questions(h, "challenge: "); len(all) != 0 {
			t.Fatalf("asked after %d: %q", i, all)
		}
		if w := serve(t, h, http.MethodGet, "/", visitor, nil); !strings.Contains(w.Body.String(), "puzzle") {
			t.Fatalf("no puzzle: %d %s", w.Code, w.Body)
		}
	}
	if all := questions(h, "challenge: 50 visitors got it"); len(all) != 1 {
		t.Errorf("asked %q", all)
	}
	if err := newExchange(t, h, http.MethodPost, nil).Grant(); err != nil {
		t.Fatal(err)
	}
	if all := questions(h, "challenge: "); len(all) != 0 {
		t.Errorf("asked although one was solved: %q", all)
	}
}

// Browsers in private networks that a server takes for proxies are asked about, once there are three. Programs that
// check its health, a proxy itself and visitors with an address of their own aren't among them.
func TestVisitorsTakenForProxiesAreAskedAbout(t *testing.T) {
	h := handlertest.Start(t, new(config.App), handlertest.Parse(t, "zone "+t.Name()+" {\nlimit 1000/1m\n}"))
	h.Neighbors = h.Config.Never("neighbors", 3, 0, advice.Advice{Problem: "visitors are taken for proxies"})
	ask := func(peer, client, agent, forwarded string, trusted bool) int {
		r := handlertest.Request(t, http.MethodGet, "/")
		r.RemoteAddr = peer
		r.Header.Set("User-Agent", agent)
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, client)
		caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, trusted)
		e := h.Begin(r)
		defer e.Release()
		if _, err := e.Decide(); err != nil {
			t.Fatal(err)
		}
		return len(questions(h, "visitors are taken"))
	}
	for i := range 9 {
		at := fmt.Sprintf("10.0.0.%d", i)
		for _, n := range []int{
			ask(at+":80", at, "ELB-HealthChecker/2.0", "", true),
			ask("10.0.0.1:80", "10.0.0.1", handlertest.Browser, "", true),
			ask("10.0.0.1:80", "203.0.113.9", handlertest.Browser, "203.0.113.9", true),
			ask(at+":80", at, handlertest.Browser, "", false),
			ask("127.0.0.1:80", "127.0.0.1", handlertest.Browser, "", true),
			ask("10.0.0.1:80", "10.0.0.1", handlertest.Browser, "203.0.113.9", true),
		} {
			if n != 0 {
				t.Fatalf("asked after %d", i)
			}
		}
	}
	ask("10.0.0.1:80", "10.0.0.1", handlertest.Browser, "203.0.113.9, 192.168.0.2", true)
	if ask("10.0.0.1:80", "10.0.0.1", handlertest.Browser, "192.168.0.2", true) != 0 {
		t.Error("one visitor is two")
	}
	if n := ask("10.0.0.3:80", "10.0.0.3", handlertest.Browser, "", true); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
