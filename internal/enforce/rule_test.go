package enforce_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// stating returns a handler whose app has some rules, and nothing else.
func stating(t testing.TB, lines string) *enforce.Handler {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := rules.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &enforce.Config{OperatorRules: enforce.OperatorRules{Rules: file, Stated: instance.RulesInForce{File: file}}, Tenant: enforce.Tenant{Log: zap.NewNop()}}
	return &enforce.Handler{Config: cfg}
}

// requestTo returns a request to a handler from an address, with the header field of a trusted
// proxy, if any.
func requestTo(h *enforce.Handler, ip string, chain ...string) *enforce.Evaluation {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	server := &caddyhttp.Server{ClientIPHeaders: []string{"X-Forwarded-For"}}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), server)
	e := enforce.NewEvaluation(r)
	e.Handler = h
	e.Vars[caddyhttp.ClientIPVarKey] = ip
	if len(chain) > 0 {
		e.Vars[caddyhttp.TrustedProxyVarKey] = true
		r.Header["X-Forwarded-For"] = chain
	}
	return e
}

// found returns the line of the rule that applies to a request from an address.
func found(t testing.TB, h *enforce.Handler, ip string, chain ...string) string {
	t.Helper()
	e := requestTo(h, ip, chain...)
	defer e.Release()
	s, err := e.Rule()
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		return ""
	}
	return s.String()
}

func TestRulesOfAddresses(t *testing.T) {
	h := stating(t, `
ban 192.0.2.0/24
allow 192.0.2.7
ban 2001:db8::/32
allow 198.51.100.1
ban 203.0.113.9
`)
	for _, tt := range []struct {
		ip, want string
		chain    []string
	}{
		{ip: "192.0.2.1", want: "ban 192.0.2.0/24"},
		{ip: "192.0.2.7", want: "allow 192.0.2.7"},
		{ip: "192.0.2.7", want: "allow 192.0.2.7", chain: []string{"192.0.2.7"}},
		{ip: "192.0.2.7", want: "ban 192.0.2.0/24", chain: []string{"192.0.2.7, 198.51.100.9"}}, // the client may have written it itself
		{ip: "198.51.100.1", want: "", chain: []string{"198.51.100.1, 198.51.100.9"}},
		{ip: "192.0.2.1", want: "ban 192.0.2.0/24", chain: []string{"192.0.2.1, 198.51.100.9"}},
		{ip: "::ffff:192.0.2.7", want: "allow 192.0.2.7"},
		{ip: "2001:db8::1", want: "ban 2001:db8::/32"},
		{ip: "2002:cb00:7109::1", want: "ban 203.0.113.9"}, // 6to4
		{ip: "2002:c633:6401::1", want: ""},                // 6to4, of an allowed one
		{ip: "2001:db9::1", want: ""},
		{ip: "", want: ""},
		{ip: "nonsense", want: ""},
	} {
		if got := found(t, h, tt.ip, tt.chain...); got != tt.want {
			t.Errorf("%s of %v: found %q, want %q", tt.ip, tt.chain, got, tt.want)
		}
	}
}

func TestRulesEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		end := time.Now().Add(time.Hour).Truncate(time.Second)
		h := stating(t, "allow 192.0.2.1 until "+end.Format(time.RFC3339)+"\nban 192.0.2.0/24 until "+end.Add(time.Hour).Format(time.RFC3339)+"\n")
		want := func(prefix string) {
			t.Helper()
			if got := found(t, h, "192.0.2.1"); prefix == "" && got != "" || !strings.HasPrefix(got, prefix) {
				t.Errorf("at %v found %q, want %q", time.Now(), got, prefix)
			}
		}
		want("allow")
		time.Sleep(time.Until(end) - 1)
		want("allow")
		time.Sleep(time.Nanosecond)
		want("ban")
		time.Sleep(time.Hour - time.Nanosecond)
		want("ban")
		time.Sleep(time.Nanosecond)
		want("")
	})
}

// Of several bans the one that ends last counts, and one allowance is enough.
func TestRulesAboutSeveralTargets(t *testing.T) {
	keyed := func(key string) *enforce.Zone { return &enforce.Zone{Per: enforce.PerKey, Key: key} }
	h := stating(t, `
ban 192.0.2.0/24 until 2999-01-01
ban key:a
ban key:b until 2998-01-01
allow key:c
allow key:"d e"
`)
	for _, tt := range []struct{ ip, keys, want string }{
		{"192.0.2.1", "", "ban 192.0.2.0/24 until 2999-01-01"},
		{"192.0.2.1", "a", "ban key:a"},
		{"192.0.2.1", "b", "ban 192.0.2.0/24 until 2999-01-01"},
		{"192.0.2.1", "c", "allow key:c"},
		{"192.0.2.1", "a,c", "allow key:c"},
		{"192.0.2.1", "d e", `allow key:"d e"`},
		{"198.51.100.1", "b", "ban key:b until 2998-01-01"},
		{"198.51.100.1", "x", ""},
	} {
		h.Zones = nil
		for key := range strings.SplitSeq(tt.keys, ",") {
			h.Zones = append(h.Zones, keyed(key))
		}
		if got := found(t, h, tt.ip); got != tt.want {
			t.Errorf("%s with the keys %q: found %q, want %q", tt.ip, tt.keys, got, tt.want)
		}
	}
}

// A client that writes its own address gains no allowance of a key that is the address.
func TestAllowancesOfKeysThatAreAddresses(t *testing.T) {
	h := stating(t, "allow key:192.0.2.7\nban key:192.0.2.8\nallow key:name\n")
	for _, tt := range []struct{ ip, key, chain, want string }{
		{"192.0.2.7", "192.0.2.7", "192.0.2.7", "allow key:192.0.2.7"},
		{"192.0.2.7", "192.0.2.7", "192.0.2.7, 198.51.100.9", ""},
		{"192.0.2.8", "192.0.2.8", "192.0.2.8, 198.51.100.9", "ban key:192.0.2.8"},
		{"192.0.2.7", "name", "192.0.2.7, 198.51.100.9", "allow key:name"},
	} {
		h.Zones = []*enforce.Zone{{Per: enforce.PerKey, Key: tt.key}}
		if got := found(t, h, tt.ip, tt.chain); got != tt.want {
			t.Errorf("%+v: found %q", tt, got)
		}
	}
}

// An empty key is counted by the address, and belongs to no client.
func TestRulesOfEmptyKeys(t *testing.T) {
	h := stating(t, "ban key:-\n")
	h.Zones = []*enforce.Zone{{Per: enforce.PerKey, Key: "-", EmptyForm: "-"}}
	if got := found(t, h, "192.0.2.1"); got != "" {
		t.Errorf("found %q", got)
	}
}

// A client that waits as long as Retry-After says is admitted.
func TestRetryAfterOfBans(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		start := time.Now()
		in := func(d time.Duration) string { return " until " + start.Add(d).UTC().Format(time.RFC3339) + "\n" }
		for lines, want := range map[string]time.Duration{
			"ban 192.0.2.1":                       limiter.Never,
			"ban 192.0.2.1" + in(time.Minute):     time.Minute,
			"ban 192.0.2.1 until 9999-01-01":      limiter.Never,
			"ban 192.0.2.1" + in(9e5*time.Hour/2): 9e5 * time.Hour / 2,
			// When one ends, another applies.
			"ban 192.0.2.1" + in(time.Minute) + "ban 192.0.2.0/24" + in(time.Hour) + "ban 192.0.0.0/16" + in(time.Second): time.Hour,
			"ban 192.0.2.1" + in(time.Minute) + "ban 192.0.0.0/16":                                                        limiter.Never,
			"ban 192.0.2.1" + in(time.Minute) + "allow 192.0.2.0/24\nban 192.0.0.0/16":                                    time.Minute,
			"ban 192.0.2.1" + in(time.Minute) + "ban key:a" + in(time.Hour) + "ban 192.0.2.0/24" + in(2*time.Hour):        2 * time.Hour,
		} {
			h := stating(t, lines)
			h.Zones = []*enforce.Zone{{Per: enforce.PerKey, Key: "a"}}
			e := requestTo(h, "192.0.2.1")
			ban, err := e.Rule()
			if err != nil || ban == nil {
				t.Fatalf("%q: %v, %v", lines, ban, err)
			}
			if got := e.BannedFor(ban); got != want {
				t.Errorf("%q: to wait for %v, want %v", lines, got, want)
			}
			e.Release()
		}
	})
}

func TestLookingForStatementsAllocatesNothing(t *testing.T) {
	h := stating(t, "ban 203.0.113.0/24\nban key:b\n")
	h.Zones = []*enforce.Zone{{Per: enforce.PerKey, Key: "a"}}
	r, vars, _ := benchRequest()
	vars[caddyhttp.ClientIPVarKey] = "192.0.2.1"
	e := enforce.NewEvaluation(r)
	defer e.Release()
	e.Handler = h
	if n := testing.AllocsPerRun(100, func() {
		if s, err := e.Rule(); s != nil || err != nil {
			t.Error(s, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// served sends a request from an address to a handler, and returns the answer.
func served(t *testing.T, h *enforce.Handler, ip string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, ip)
	change(r)
	if err := h.ServeHTTP(w, r, nothing{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// requestsShown returns what operators see of all requests.
func requestsShown(t *testing.T, h *enforce.Handler) operator.Counts {
	t.Helper()
	status, err := handlertest.Operator(h).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return status.Requests
}

// A handler without a zone obeys rules, and doesn't open a database for that.
func TestRulesWithoutZones(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(path, []byte("ban 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := handlertest.Start(t, &config.App{RulesFile: path}, new(config.Handler))
	w := served(t, h, "192.0.2.1", func(r *http.Request) { r.Header.Set("Accept", "application/problem+json") })
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("status %d", w.Code)
	}
	before := requestsShown(t, h)
	served(t, h, "192.0.2.1", func(*http.Request) {})
	if after := requestsShown(t, h); after.Banned != before.Banned+1 || after.Refused != before.Refused+1 {
		t.Errorf("operators are shown %+v after a ban, and %+v before", after, before)
	}
	if w := served(t, h, "192.0.2.2", func(*http.Request) {}); w.Code != http.StatusOK {
		t.Errorf("somebody else: status %d", w.Code)
	}
	if _, err := os.Stat(h.Config.Settings.Path); err == nil || h.Config.Instance.Load() != nil {
		t.Error("the database was opened")
	}
}

// A request in early data may be a replay, and its address forged.
func TestRulesDoNotHoldForEarlyData(t *testing.T) {
	h := zoneHandler(t, &config.Zone{Name: "z", Limits: []config.Limit{{Amount: 1, Window: 3600e9}}, MatcherSetsRaw: caddyhttp.RawMatcherSets{{"path": []byte(`["/limited"]`)}}})
	other := stating(t, "allow 192.0.2.1\nban 192.0.2.2\n")
	h.Config.Stated.File = other.Config.Rules
	early := func(r *http.Request) { r.TLS = new(tls.ConnectionState) }
	for ip, want := range map[string]int{"192.0.2.1": http.StatusTooEarly, "192.0.2.2": http.StatusTooEarly, "192.0.2.3": http.StatusOK} {
		if w := served(t, h, ip, early); w.Code != want {
			t.Errorf("%s: status %d, want %d", ip, w.Code, want)
		}
	}
}

// A forecast doesn't trigger the warning that real requests trigger once.
func TestForecastsOfClaimedAddressesWarnNobody(t *testing.T) {
	h := stating(t, "")
	e := requestTo(h, "192.0.2.7", "192.0.2.7, 198.51.100.9")
	defer e.Release()
	e.By(enforce.Forecast{Config: h.Config}).Client = &enforce.Client{Config: h.Config, Http: e.Http}
	if _, claimed := (enforce.Evidence{Evaluation: e}).Network(); !claimed {
		t.Error("the address is not claimed")
	}
	warned := true
	h.Config.Claims.Do(func() { warned = false })
	if warned {
		t.Error("there is no warning left for a real request")
	}
}
