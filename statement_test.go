package tally

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/bubble"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// stating returns a handler whose app has some statements, and nothing else.
func stating(t testing.TB, lines string) *Handler {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := rules.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Handler{app: &App{rules: file}}
}

// found returns the line of the statement that counts for a request from an address.
func found(t testing.TB, h *Handler, ip string, more ...string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	server := &caddyhttp.Server{ClientIPHeaders: []string{"X-Forwarded-For"}}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), server)
	e := newEvaluation(r)
	defer e.release()
	e.handler = h
	e.vars[caddyhttp.ClientIPVarKey] = ip
	if len(more) > 0 { // what a proxy says that is trusted
		e.vars[caddyhttp.TrustedProxyVarKey] = true
		r.Header["X-Forwarded-For"] = more
	}
	s, err := e.statement()
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		return ""
	}
	return s.String()
}

func TestStatementsOfAddresses(t *testing.T) {
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
		{ip: "192.0.2.7", want: "ban 192.0.2.0/24", chain: []string{"192.0.2.7, 198.51.100.9"}}, // which it may have written itself
		{ip: "198.51.100.1", want: "", chain: []string{"198.51.100.1, 198.51.100.9"}},
		{ip: "192.0.2.1", want: "ban 192.0.2.0/24", chain: []string{"192.0.2.1, 198.51.100.9"}},
		{ip: "::ffff:192.0.2.7", want: "allow 192.0.2.7"},
		{ip: "2001:db8::1", want: "ban 2001:db8::/32"},
		{ip: "2002:cb00:7109::1", want: "ban 203.0.113.9"}, // 6to4
		{ip: "2002:c633:6401::1", want: ""},                // 6to4, of one that is allowed
		{ip: "2001:db9::1", want: ""},
		{ip: "", want: ""},
		{ip: "nonsense", want: ""},
	} {
		if got := found(t, h, tt.ip, tt.chain...); got != tt.want {
			t.Errorf("%s of %v: found %q, want %q", tt.ip, tt.chain, got, tt.want)
		}
	}
}

func TestStatementsEnd(t *testing.T) {
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
func TestStatementsAboutSeveralTargets(t *testing.T) {
	zone := func(key string) *Zone { return &Zone{per: perKey, Key: key} }
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
		h.zones = nil
		for key := range strings.SplitSeq(tt.keys, ",") {
			h.zones = append(h.zones, zone(key))
		}
		if got := found(t, h, tt.ip); got != tt.want {
			t.Errorf("%s with the keys %q: found %q, want %q", tt.ip, tt.keys, got, tt.want)
		}
	}
}

// A key that is empty is counted by the address, and is nobody's.
func TestStatementsOfEmptyKeys(t *testing.T) {
	h := stating(t, "ban key:-\n")
	h.zones = []*Zone{{per: perKey, Key: "-", emptyForm: "-"}}
	if got := found(t, h, "192.0.2.1"); got != "" {
		t.Errorf("found %q", got)
	}
}

func TestRetryAfterOfStatements(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		until time.Time
		want  time.Duration
	}{
		{time.Time{}, limiter.Never},
		{now.Add(time.Minute), time.Minute},
		{now, 1}, // it ended while the request was looked at
		{now.AddDate(90, 0, 0), now.AddDate(90, 0, 0).Sub(now)},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), limiter.Never},
	} {
		if got := untilEnd(&rules.Statement{Until: tt.until}, now); got != tt.want {
			t.Errorf("until %v: %v, want %v", tt.until, got, tt.want)
		}
	}
}

func TestLookingForStatementsAllocatesNothing(t *testing.T) {
	h := stating(t, "ban 203.0.113.0/24\nban key:b\n")
	h.zones = []*Zone{{per: perKey, Key: "a"}}
	r, vars, _ := benchRequest()
	vars[caddyhttp.ClientIPVarKey] = "192.0.2.1"
	e := newEvaluation(r)
	defer e.release()
	e.handler = h
	if n := testing.AllocsPerRun(100, func() {
		if s, err := e.statement(); s != nil || err != nil {
			t.Error(s, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
