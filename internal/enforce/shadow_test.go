package enforce_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/internal/testing/fakeclock"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// clockedHandler starts a handler with an engine that uses a clock.
func clockedHandler(t testing.TB, app *config.App, clock engine.Clock, config *config.Handler) *enforce.Handler {
	t.Helper()
	h := handlertest.Provision(t, handlertest.Compile(t, app), config)
	startClocked(t, h, clock)
	return h
}

// startClocked starts the engine of a handler with a clock.
func startClocked(t testing.TB, h *enforce.Handler, clock engine.Clock) {
	t.Helper()
	i := instance.NewWith(h.Config.Settings, h.Config.Store, func(o *engine.Options) { o.Clock = clock })
	h.Config.Instance.Store(i)
	h.Config.Settle()
	<-i.Engine.Ready()
	t.Cleanup(func() { i.Destruct() })
}

// shadowAsked is the answer to a request, with the placeholders that a later handler has read.
type shadowAsked struct {
	*httptest.ResponseRecorder
	passed bool
	would  map[string]string // by zone
}

// askThrough makes a handler answer a request, followed by another one that reads the placeholders
// of zones.
func askThrough(t testing.TB, h *enforce.Handler, path, ip string, header http.Header, zones ...string) shadowAsked {
	t.Helper()
	a := shadowAsked{ResponseRecorder: httptest.NewRecorder(), would: make(map[string]string)}
	r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, nil)
	maps.Copy(r.Header, header)
	repl := caddy.NewReplacer()
	r = caddyhttp.PrepareRequest(r, repl, a, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, ip)
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		a.passed = true
		for _, zone := range zones {
			a.would[zone] = repl.ReplaceKnown("{http.rate_limit."+zone+".would_refuse}", "")
		}
		_, err := w.Write([]byte("fine"))
		return err
	})
	if err := h.ServeHTTP(a, r, next); err != nil {
		a.WriteHeader(err.(caddyhttp.HandlerError).StatusCode)
	}
	return a
}

// A handler with shadow limits answers exactly like one without. Each shadow limit decides about
// each passing request like the same limit enforced on these requests.
func TestShadowLimitsDecideAsIfEnforced(t *testing.T) {
	for seed := range uint64(proof.Times(1, 300)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			testShadowHandler(t, seed)
		})
	}
}

func testShadowHandler(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 11))
	clock := fakeclock.New(time.Date(2026, 11, 22, 11, 59, 58, 7, time.UTC).UnixNano())
	drawn := func(name string) config.Limit {
		l := config.Limit{Amount: 1 + random.Int64N(9), Window: caddy.Duration([]time.Duration{time.Second, 20 * time.Second, time.Minute}[random.IntN(3)]), Name: name}
		l.Algorithm = []string{"sliding", "fixed", "token_bucket"}[random.IntN(3)]
		return l
	}
	zone := func(name, per string, limits ...config.Limit) *config.Zone {
		z := &config.Zone{Name: name, Per: per, Limits: limits, Cost: "{http.request.header.X-Cost}", MaxCost: 12}
		z.DisableReputation = per == enforce.PerClient // otherwise the oracle's refusals would change its limits
		if per == enforce.PerKey {
			z.Key = "{http.request.header.X-Tenant}"
		}
		return z
	}
	pers := []string{enforce.PerIP, enforce.PerKey, enforce.PerClient}
	var with, without []*config.Zone
	var oracles []*enforce.Handler
	shadows := make(map[string][]string) // names of the limits of each zone
	for i, per := range pers {
		name := "zone-" + per
		enforced := []config.Limit{drawn(name)}
		enforced[0].Amount += 20
		limits := slices.Clone(enforced)
		for n := range 1 + random.IntN(2) {
			l := drawn(fmt.Sprint(name, " shadow ", n))
			shadows[name] = append(shadows[name], l.Name)
			oracles = append(oracles, clockedHandler(t, new(config.App), clock, &config.Handler{Zones: []*config.Zone{zone(name, per, l)}}))
			l.Shadow = true
			limits = append(limits, l)
		}
		if i == int(seed)%len(pers) { // the whole zone
			l := drawn("all of it")
			oracles = append(oracles, clockedHandler(t, new(config.App), clock, &config.Handler{Zones: []*config.Zone{zone("whole", per, l)}}))
			z := zone("whole", per, l)
			z.Shadow = true
			with, shadows["whole"] = append(with, z), []string{l.Name}
		}
		with, without = append(with, zone(name, per, limits...)), append(without, zone(name, per, enforced...))
	}
	tried := clockedHandler(t, new(config.App), clock, &config.Handler{Zones: with})
	plain := clockedHandler(t, new(config.App), clock, &config.Handler{Zones: without})
	for _, h := range []*enforce.Handler{tried, plain} {
		h.Random = func() float64 { return 0 } // both answer with the same Retry-After
	}

	zones := slices.Collect(maps.Keys(shadows))
	wouldRefuse := 0
	for n := range 600 {
		if random.IntN(3) == 0 {
			clock.Now.Add(random.Int64N(int64([]time.Duration{time.Millisecond, 300 * time.Millisecond, 40 * time.Second}[random.IntN(3)])))
		}
		ip := fmt.Sprint("192.0.2.", random.IntN(3))
		header := http.Header{
			"X-Cost": {fmt.Sprint([]int{0, 1, 1, 1, 2, 3, 10}[random.IntN(7)])}, "X-Tenant": {fmt.Sprint(random.IntN(2))},
			"User-Agent": {fmt.Sprint("browser ", random.IntN(3))},
		}
		got, want := askThrough(t, tried, "/", ip, header, zones...), askThrough(t, plain, "/", ip, header)
		if got.Code != want.Code || got.Body.String() != want.Body.String() || !sameHeader(got.Header(), want.Header()) {
			t.Fatalf("request %d: answered %d %q %v with shadow limits, and %d %q %v without", n, got.Code, got.Body, got.Header(), want.Code, want.Body, want.Header())
		}
		if !got.passed {
			continue
		}
		for _, oracle := range oracles {
			z := oracle.Zones[0]
			name := z.Own.Policies[0].Name
			refused := !askThrough(t, oracle, "/", ip, header).passed
			would := slices.ContainsFunc(strings.Split(got.would[z.Name], ", "), func(by string) bool {
				return by == name || by == name+"-network" || by == name+"-elsewhere"
			})
			if would != refused {
				t.Fatalf("request %d: refused by %q if enforced: %v, but in shadow by %q", n, name, refused, got.would[z.Name])
			}
			if refused {
				wouldRefuse++
			}
		}
	}
	if wouldRefuse < 20 {
		t.Errorf("only %d requests would have been refused", wouldRefuse)
	}
}

// sameHeader reports whether two answers have the same header fields. It ignores the remaining
// units, which depend on when a batch returned to memory.
func sameHeader(a, b http.Header) bool {
	a.Del("RateLimit")
	b.Del("RateLimit")
	return maps.EqualFunc(a, b, func(x, y []string) bool { return slices.Equal(items(x), items(y)) })
}

// items returns the members of lists in header fields, in an order that doesn't depend on the
// remaining units.
func items(values []string) []string {
	return slices.Sorted(strings.SplitSeq(strings.Join(values, ", "), ", "))
}

// A zone in shadow passes everything: requests over its limits, without an API key, with an empty
// key, and of a banned client.
func TestZoneInShadowRefusesNothing(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("salt 00010203040506070809101112131415\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	zones := map[string]*config.Zone{
		"over":     {Per: enforce.PerIP},
		"client":   {Per: enforce.PerClient},
		"api_key":  {Per: enforce.PerAPIKey},
		"empty":    {Per: enforce.PerKey, Key: "{http.request.header.X-Nothing}", OnEmptyKey: enforce.EmptyDeny},
		"costly":   {Per: enforce.PerIP, Cost: "100"},
		"no tier":  {Tier: "{http.request.header.X-Nothing}"},
		"everyone": {Per: enforce.PerEveryone},
	}
	for name, z := range zones {
		t.Run(name, func(t *testing.T) {
			z.Name, z.Shadow = "tried", true
			if z.Tier == "" {
				z.Limits = []config.Limit{{Amount: 2, Window: hour}}
			}
			app := &config.App{APIKeys: &config.APIKeys{From: []config.KeySource{{Type: enforce.FromBearer}}, File: keys}, Tiers: []*config.Tier{{Name: "free", Limits: []config.Limit{{Amount: 2, Window: hour}}}}}
			h := handlertest.Start(t, app, &config.Handler{Zones: []*config.Zone{z}})
			would := 0
			for range 5 {
				a := askThrough(t, h, "/", "192.0.2.1", nil, "tried")
				if delete(a.Header(), "Content-Type"); !a.passed || len(a.Header()) > 0 {
					t.Errorf("passed %v, answered %d with %v", a.passed, a.Code, a.Header())
				}
				if a.would["tried"] != "" {
					would++
				}
			}
			if want := map[string]int{"over": 3, "client": 3, "everyone": 3}[name]; would != 5 && want == 0 || want > 0 && would != want {
				t.Errorf("%d of 5 would be refused", would)
			}
		})
	}
}

// A limit that leaves shadow keeps its counts, and so does a zone.
func TestCountsStayWhenShadowEnds(t *testing.T) {
	limits := func(shadow bool) []config.Limit {
		return []config.Limit{{Amount: 100, Window: hour}, {Amount: 3, Window: hour, Shadow: shadow, Name: "tight"}}
	}
	for name, zone := range map[string]func(shadow bool) *config.Zone{
		"a limit": func(shadow bool) *config.Zone { return &config.Zone{Name: "z", Limits: limits(shadow)} },
		"a zone":  func(shadow bool) *config.Zone { return &config.Zone{Name: "z", Shadow: shadow, Limits: limits(false)} },
	} {
		var ids [2][]engine.Limit
		for i, shadow := range []bool{true, false} {
			h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{zone(shadow)}})
			for _, p := range h.Zones[0].Own.All() {
				ids[i] = append(ids[i], p.Limit)
			}
		}
		if len(ids[0]) != 2 || ids[0][0].ID != ids[1][0].ID || ids[0][1].ID != ids[1][1].ID || ids[0][0].ID == ids[0][1].ID {
			t.Errorf("%s: counted under %v in shadow, and under %v afterwards", name, ids[0], ids[1])
		}
	}
}

// Shadow limits have unique names, and don't change those of others.
func TestNamesOfShadowLimits(t *testing.T) {
	h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{{Name: "login", Limits: []config.Limit{
		{Amount: 9, Window: hour, Shadow: true, Algorithm: "fixed"}, {Amount: 5, Window: hour}, {Amount: 3, Window: hour, Shadow: true}, {Amount: 2, Window: hour, Shadow: true}, {Amount: 50, Window: 24 * hour},
	}}}})
	var names []string
	for _, p := range h.Zones[0].Own.All() {
		names = append(names, p.Name)
	}
	if want := []string{"login", "login-24h", "login-9/1h", "login-3/1h", "login-2/1h"}; !slices.Equal(names, want) {
		t.Errorf("named %q, want %q", names, want)
	}
}

// Metrics, the history and the decision log count the refusals that shadow limits would make, but
// not as refusals.
func TestWouldRefuseIsCounted(t *testing.T) {
	logs, h := shadowLogs(t, &config.Zone{Name: "seen", Limits: []config.Limit{{Amount: 4, Window: hour}, {Amount: 2, Window: hour, Shadow: true}, {Amount: 1, Window: hour, Shadow: true}}})
	for range 6 {
		askThrough(t, h, "/", "192.0.2.7", nil, "seen") // it waits for the verdicts
	}
	zone := zonesShown(t, h)[0]
	if zone.Allowed != 4 || zone.Refused != 2 || zone.WouldRefuse != 3 || zone.Shadow {
		t.Errorf("the zone counts %+v", zone)
	}
	for i, want := range [][3]int64{{4, 2, 0}, {2, 0, 2}, {1, 0, 3}} {
		l := zone.Limits[i]
		if got := [3]int64{l.Allowed, l.Refused, l.WouldRefuse}; got != want || l.Shadow != (i > 0) {
			t.Errorf("limit %s counts %v, want %v: allowed, refused and would refuse", l.Name, got, want)
		}
	}
	lines := logs.FilterMessage("would refuse").All()
	if len(lines) != 5 {
		t.Fatalf("%d lines, want 5", len(lines))
	}
	fields := lines[4].ContextMap()
	if fields["zone"] != "seen" || fields["limit"] != "seen-1/1h" || fields["outcome"] != outcomes.WouldRefuse || fields["client_ip"] != "192.0.2.7" {
		t.Errorf("logged %v", fields)
	}
	if n := len(logs.FilterMessage("refused").All()); n != 2 {
		t.Errorf("%d refusals are logged, want 2", n)
	}
}

func shadowLogs(t *testing.T, zones ...*config.Zone) (*observer.ObservedLogs, *enforce.Handler) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	h := handlertest.Start(t, &config.App{DecisionLog: new(config.DecisionLog)}, &config.Handler{Zones: zones})
	handlertest.LogDecisions(h, zap.New(core))
	return logs, h
}

// A request with pending verdicts continues, and a reader of the verdicts waits.
func TestShadowVerdictsThatWait(t *testing.T) {
	v := new(enforce.ShadowVerdicts)
	z := &enforce.Zone{Name: "slow"}
	v.Zones = []*enforce.Zone{z}
	done := v.Await(z)
	asked := make(chan any, 1)
	go func() {
		value, _ := v.Placeholder("http.rate_limit.slow.would_refuse")
		asked <- value
	}()
	if value, ok := v.Placeholder("http.rate_limit.other.would_refuse"); ok || value != "" {
		t.Errorf("of another zone: %v, %v", value, ok)
	}
	v.Add(enforce.StandIn(z, "tight"))
	done()
	if value := <-asked; value != "tight" {
		t.Errorf("got %v", value)
	}
}

// Requests don't wait for a shadow limit: while another process locks the database, requests pass
// at once, and the verdicts are known when it is free again.
func TestNobodyWaitsForShadowLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally.db")
	h := handlertest.Provision(t, handlertest.Compile(t, &config.App{
		StoreRaw:       json.RawMessage(fmt.Sprintf(`{"engine": "sqlite", "path": %q, "journal": "off"}`, path)),
		DisableHistory: true,
	}), &config.Handler{Zones: []*config.Zone{{Name: "tried", Shadow: true, Limits: []config.Limit{{Amount: 2, Window: hour}}}}})
	h.Config.Started()
	defer h.Config.Cleanup()

	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	verdicts := make(chan string, 3)
	for range 3 {
		passed := make(chan bool, 1)
		go func() {
			w := httptest.NewRecorder()
			repl := caddy.NewReplacer()
			r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "http://example.com/", nil), repl, w, new(caddyhttp.Server))
			caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
			h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
				passed <- true
				return nil
			}))
			verdicts <- repl.ReplaceAll("{http.rate_limit.tried.would_refuse}", "") // waits
		}()
		select {
		case <-passed:
		case <-time.After(30 * time.Second): // half of the longest wait for the store
			t.Fatal("a request waits for a shadow limit")
		}
	}
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	var would []string
	for range 3 {
		would = append(would, <-verdicts)
	}
	slices.Sort(would)
	if !slices.Equal(would, []string{"", "", "tried"}) {
		t.Errorf("refused by %q, want one of three", would)
	}
}

// A zone in shadow affects no client: it bans, scores and challenges none, passes clients that are
// banned elsewhere, and checks don't count it as protection.
func TestZoneInShadowKnowsNoConduct(t *testing.T) {
	ban := &config.Ban{After: 1, Within: hour, For: hour}
	h := handlertest.Start(t, &config.App{Ban: ban}, &config.Handler{Zones: []*config.Zone{{Name: "tried", Per: enforce.PerClient, Shadow: true, Limits: []config.Limit{{Amount: 1, Window: hour}}}}})
	if h.Clients || h.Anonymous {
		t.Error("the handler keeps records of clients for a zone in shadow")
	}
	for range 9 {
		if a := askThrough(t, h, "/", "192.0.2.1", nil, "tried"); !a.passed {
			t.Fatalf("answered %d", a.Code)
		}
	}
	if records := h.Config.Instance.Load().Engine.Clients(engine.ClientsQuery{N: 9}); len(records) > 0 {
		t.Errorf("recorded %+v", records)
	}
}
