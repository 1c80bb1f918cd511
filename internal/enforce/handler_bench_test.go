package enforce_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// BenchmarkServeHTTP measures the handler's share of a request that Caddy has prepared: the real
// engine and store, header fields on.
func BenchmarkServeHTTP(b *testing.B) {
	for _, keys := range []int{1, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("warm/keys=%d", keys), func(b *testing.B) {
			benchServe(b, config.Limit{Amount: 1 << 40, Window: 366 * 24 * 3600e9}, keys, 2)
		})
		b.Run(fmt.Sprintf("blocked/keys=%d", keys), func(b *testing.B) {
			benchServe(b, config.Limit{Amount: 1, Window: 366 * 24 * 3600e9}, keys, 2)
		})
	}
	for _, per := range []string{enforce.PerIP, enforce.PerClient} {
		b.Run("warm/per="+per, func(b *testing.B) { benchPer(b, per, "same-origin") })
	}
	b.Run("warm/per=key", func(b *testing.B) {
		h := zoneHandler(b, &config.Zone{Name: "bench", Per: enforce.PerKey, Key: "{http.request.header.X-Key}", Limits: []config.Limit{{Amount: 1 << 40, Window: 366 * 24 * 3600e9}}})
		benchHandlerServe(b, h, 1, 2, "X-Key", "key-1")
	})
	b.Run("warm/per=client/elsewhere", func(b *testing.B) { benchPer(b, enforce.PerClient, "cross-site") })
	b.Run("warm/per=client/session", benchSession)
	b.Run("blocked/page", func(b *testing.B) {
		h := benchHandler(b, config.Limit{Amount: 1, Window: 366 * 24 * 3600e9})
		benchHandlerServe(b, h, 1, 2, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Language", "de-AT,de;q=0.9,en;q=0.8")
	})
	b.Run("cold", func(b *testing.B) {
		benchServe(b, config.Limit{Amount: 100, Window: 3600e9}, b.N, 0)
	})
}

// nothing is the next handler, and the writer.
type nothing struct{ header http.Header }

func (nothing) ServeHTTP(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusOK)
	return nil
}
func (n *nothing) Header() http.Header       { return n.header }
func (*nothing) Write(p []byte) (int, error) { return len(p), nil }
func (*nothing) WriteHeader(int)             {}

// benchPer measures counting clients by their fingerprints, and their networks as well, compared to
// counting by address. site is the site that causes a browser to send the requests.
func benchPer(b *testing.B, per, site string) {
	limit := config.Limit{Amount: 1 << 30, Window: 366 * 24 * 3600e9}
	h := zoneHandler(b, &config.Zone{Name: "bench", Per: per, Limits: []config.Limit{limit}})
	benchHandlerServe(b, h, 1000, 2, "User-Agent", browser, "Sec-Fetch-Site", site)
}

// benchSession measures recognizing a client by its session.
func benchSession(b *testing.B) {
	h := handlertest.Start(b, &config.App{Session: new(config.Session)}, &config.Handler{Zones: []*config.Zone{{Name: "bench", Per: enforce.PerClient, Limits: []config.Limit{{Amount: 1 << 30, Window: 366 * 24 * 3600e9}}}}})
	r, vars, _ := benchRequest()
	vars[caddyhttp.ClientIPVarKey] = benchClients(1)[0]
	e := enforce.NewEvaluation(r)
	defer e.Release()
	e.AttachClient(h.Config, false)
	e.Client.LocateFrom(e)
	_, cookie := e.Client.Issue(h.Config.Session.Ready(b.Context(), h.Config))
	pair, _, _ := strings.Cut(cookie, ";")
	r.Header["Cookie"] = []string{pair}
	e.Client = enforce.NewClient(e.Http, h.Config)
	if kind := e.Identify().Kind; kind != identity.Session {
		b.Fatalf("known by a %v", kind)
	}
	benchHandlerServe(b, h, 1, 2, "Cookie", pair)
}

const browser = handlertest.Browser

func benchServe(b *testing.B, limit config.Limit, keys, before int) {
	benchHandlerServe(b, benchHandler(b, limit), keys, before)
}

func benchHandlerServe(b *testing.B, h *enforce.Handler, keys, before int, fields ...string) {
	clients := benchClients(keys)
	r, vars, w := benchRequest()
	serve := func(client any, r *http.Request, vars map[string]any, w *nothing) {
		vars[caddyhttp.ClientIPVarKey] = client
		delete(vars, handlertest.ResponseVar)
		delete(vars, enforce.ClientVar)
		delete(vars, "rate_limit.let_in") // of internal/report: another request isn't a later handler's
		for i := 0; i < len(fields); i += 2 {
			r.Header[fields[i]] = fields[i+1 : i+2]
		}
		clear(w.header)
		h.ServeHTTP(w, r, nothing{})
	}
	for range before {
		for i := range keys { // not in the order in which they come later
			serve(clients[i*7919%keys], freshReplacer(r), vars, w)
		}
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		r, vars, w := benchRequest()
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		empty := *repl
		for i := int(next.Add(1)) * keys / 3; pb.Next(); i++ {
			*repl = empty // like another request's
			serve(clients[i%keys], r, vars, w)
		}
	})
}

func freshReplacer(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, caddy.NewReplacer()))
}

// benchClients returns n addresses, in the form of a request's variables.
func benchClients(n int) []any {
	clients := make([]any, n)
	for i := range clients {
		clients[i] = fmt.Sprintf("%d.%d.%d.%d", 10+i>>24, i>>16&255, i>>8&255, i&255)
	}
	return clients
}

// benchRequest returns a request in the form that Caddy passes to handlers, the table of its
// variables, and a writer for the answer.
func benchRequest() (*http.Request, map[string]any, *nothing) {
	w := &nothing{http.Header{}}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server))
	return r, r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any), w
}

func benchHandler(b testing.TB, limit config.Limit) *enforce.Handler {
	b.Helper()
	return zoneHandler(b, &config.Zone{Name: "bench", Limits: []config.Limit{limit}})
}

// zoneHandler returns a handler with a zone, ready for requests.
func zoneHandler(b testing.TB, z *config.Zone) *enforce.Handler {
	b.Helper()
	return handlertest.Start(b, &config.App{MaxKeys: 2_000_000}, &config.Handler{Zones: []*config.Zone{z}})
}
