package enforce_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/endpoint"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// Each zone, endpoint and condition read a request anew.
func TestRequestIsReadOnceForAllHandlers(t *testing.T) {
	options := `
		exempt /health mode=light
		trap /admin.php
		zone a {
			match /search mode=heavy
			cost 5 /search q=*
			limit 5/1m
		}
		zone b {
			match POST /login
			limit 5/1m
		}`
	r := handlertest.Request(t, "GET", "/s%2565arch;x?mode=%2568eavy&q=a%20b")
	var first endpoint.Readings
	for n := range 2 {
		h := handlerOf(t, options)
		e := &enforce.Evaluation{Verdict: enforce.Verdict{Handler: h, Http: r}}
		if exempt, err := e.IsExempt(); exempt || err != nil {
			t.Fatal(exempt, err)
		}
		if trapped, err := h.Traps[0].Matchers.AnyMatchWithError(r); trapped || err != nil {
			t.Fatal(trapped, err)
		}
		matches, err := h.Zones[0].Matches(e)
		cost, _ := h.Zones[0].CostOf(r)
		if !matches || err != nil || cost != 5 {
			t.Fatal(matches, cost, err)
		}
		readings := *caddyhttp.GetVar(r.Context(), "rate_limit.readings").(*endpoint.Readings)
		if n == 0 {
			first = readings
		}
		if readings == (endpoint.Readings{}) || readings != first {
			t.Error("the request was read again")
		}
	}
}

// The reading of a request is valid for that target only, not after rewriting.
func TestReadingEndsWithRewriting(t *testing.T) {
	m := newEndpoint(t, "/login mode=heavy")
	r := handlertest.Request(t, "GET", "/x?mode=%256cight")
	for _, c := range []struct {
		path, query string
		want        bool
	}{
		{"/x", "mode=%256cight", false}, {"/%6cogin", "mode=%256cight", false}, {"/%6cogin", "mode=%2568eavy", true}, {"/%6dogin", "mode=%2568eavy", false},
		{"/%6cogin", "mode=%2568eavy", true}, {"/login;x", "mode=%2568eav", false}, {"/x", "mode=%2568eavy", false},
	} {
		r.URL.Path, r.URL.RawPath, r.URL.RawQuery = c.path, "", c.query
		for range 2 {
			if got, err := m.MatchWithError(r); got != c.want || err != nil {
				t.Errorf("%s?%s: %v, want %v (%v)", c.path, c.query, got, c.want, err)
			}
		}
	}
}

// An extended CONNECT reaches backends as a GET.
func TestExtendedConnectIsGetForLimits(t *testing.T) {
	for options, counted := range map[string]bool{
		"match GET /ws": true, "match CONNECT /ws": true, "match POST /ws": false, "match /ws": true,
		"match {\nnot method CONNECT\npath /ws\n}": true, "match {\nnot method GET\npath /ws\n}": true, "match not endpoint GET /ws": true, "match not endpoint CONNECT /ws": true,
	} {
		z := handlerOf(t, "zone z {\n"+options+"\nlimit 5/1m\n}").Zones[0]
		for proto, r := range extendedConnects(t) {
			if got, err := z.Matches(&enforce.Evaluation{Verdict: enforce.Verdict{Http: r}}); got != counted || err != nil {
				t.Errorf("%s: %s is in the zone: %v, want %v (%v)", options, proto, got, counted, err)
			}
		}
	}
	for options, exempt := range map[string]bool{
		"exempt /ws": true, "exempt GET /ws": false, "exempt CONNECT /ws": false, "exempt method GET": false, "exempt method CONNECT": false, "exempt not method POST": false,
		"exempt `{http.request.method} == 'CONNECT'`": false,
	} {
		h := handlerOf(t, options)
		for proto, r := range extendedConnects(t) {
			if got, err := (&enforce.Evaluation{Verdict: enforce.Verdict{Handler: h, Http: r}}).IsExempt(); got != exempt || err != nil {
				t.Errorf("%s: %s is exempt: %v, want %v (%v)", options, proto, got, exempt, err)
			}
		}
	}
	plain := handlertest.Request(t, "CONNECT", "/ws")
	if got, _ := newEndpoint(t, "GET /ws").MatchWithError(plain); got {
		t.Error("a CONNECT over HTTP/1.1 is a GET")
	}
}

// extendedConnects are requests as Go's HTTP/2 and quic-go's HTTP/3 make them.
func extendedConnects(t *testing.T) map[string]*http.Request {
	requests := make(map[string]*http.Request)
	for _, protocol := range []string{"websocket", "other"} {
		h2, h3 := handlertest.Request(t, "GET", "/ws"), handlertest.Request(t, "GET", "/ws")
		h2.Method, h2.Proto, h2.ProtoMajor, h2.Header[":protocol"] = http.MethodConnect, "HTTP/2.0", 2, []string{protocol}
		h3.Method, h3.Proto, h3.ProtoMajor = http.MethodConnect, protocol, 3
		logged := handlertest.Request(t, "GET", "/ws") // HTTP/3 in an access log, which has no version
		logged.Method, logged.Proto, logged.ProtoMajor, logged.ProtoMinor = http.MethodConnect, protocol, 0, 0
		requests["HTTP/2 "+protocol], requests["HTTP/3 "+protocol], requests["logged "+protocol] = h2, h3, logged
	}
	return requests
}

// Hostile targets take the time of reading them, in any place.
func BenchmarkEndpointsOfHostileRequests(b *testing.B) {
	h := handlerOf(b, "exempt /health mode=light\ntrap /admin.php\nzone a {\nmatch POST /login\nmatch /search mode=heavy\nlimit 5/1m\n}")
	for name, target := range map[string]string{
		"path": "/" + strings.Repeat("%c0%a5", 2400), "query": "/login??%" + strings.Repeat("c0%a5", 1600), "longest": "/login??%" + strings.Repeat("c0%a5", 2800),
	} {
		r := handlertest.Request(b, "GET", target)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				caddyhttp.SetVar(r.Context(), "rate_limit.readings", nil)
				e := &enforce.Evaluation{Verdict: enforce.Verdict{Handler: h, Http: r}}
				e.IsExempt()
				h.Zones[0].Matches(e)
			}
		})
	}
}
