package routing_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// These tests fail when a new version of Caddy changes what the package takes for granted.

// probe is a handler that looks at its server while it is provisioned.
type probe struct {
	Name string `json:"name"`
}

func (probe) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.routing_probe", New: func() caddy.Module { return new(probe) }}
}

// seen is called by each probe, and seenIn with its context.
var (
	seen   func(name string, server *caddyhttp.Server)
	seenIn func(caddy.Context)
)

func (p *probe) Provision(ctx caddy.Context) error {
	if seenIn != nil {
		seenIn(ctx)
	}
	if seen != nil {
		seen(p.Name, ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server))
	}
	return nil
}

func (p *probe) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

func init() { caddy.RegisterModule(probe{}) }

// provision provisions a server with a config, and returns it.
func provision(t *testing.T, server string) *caddyhttp.Server {
	t.Helper()
	raw := `{"admin":{"disabled":true},"apps":{"http":{"servers":{"a":` + server + `}}}}`
	var config caddy.Config
	if err := caddy.StrictUnmarshalJSON([]byte(raw), &config); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&config)
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	return app.(*caddyhttp.App).Servers["a"]
}

func TestTrustsProxies(t *testing.T) {
	for config, want := range map[string]bool{
		`{"listen":[":0"]}`: false,
		`{"listen":[":0"],"trusted_proxies":{"source":"static","ranges":["10.0.0.0/8"]}}`: true,
	} {
		server := provision(t, config)
		if server.TrustedProxiesRaw != nil {
			t.Error("Caddy keeps the JSON of trusted_proxies: look at that instead of an unexported field")
		}
		if got := routing.TrustsProxies(server); got != want {
			t.Errorf("%s: %t, want %t", config, got, want)
		}
	}
}

func TestTrustedRanges(t *testing.T) {
	for config, want := range map[string][]string{
		`{"listen":[":0"]}`: nil,
		`{"listen":[":0"],"trusted_proxies":{"source":"static","ranges":["10.0.0.0/8","0.0.0.0/0"]}}`: {"10.0.0.0/8", "0.0.0.0/0"},
	} {
		if got := routing.TrustedRanges(provision(t, config)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
}

func TestIncludedLogs(t *testing.T) {
	const handlers = `"apps":{"http":{"servers":{"a":{"listen":[":0"],"routes":[{"handle":[{"handler":"routing_probe"}]}]}}}}`
	for logging, want := range map[string][]string{
		``: nil,
		`"logging":{"logs":{"b":{"writer":{"output":"stderr"},"include":["http.log.access","http.log.rate_limit"]}}},`: {"http.log.access", "http.log.rate_limit"},
	} {
		var got []string
		seenIn = func(ctx caddy.Context) { got = routing.IncludedLogs(ctx) }
		var config caddy.Config
		if err := caddy.StrictUnmarshalJSON([]byte(`{"admin":{"disabled":true},`+logging+handlers+`}`), &config); err != nil {
			t.Fatal(err)
		}
		_, err := caddy.ProvisionContext(&config)
		if seenIn = nil; err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", logging, got, want)
		}
	}
}

func TestDeferredWriter(t *testing.T) {
	for _, deferred := range []bool{false, true} {
		h := headers.Handler{Response: &headers.RespHeaderOps{HeaderOps: &headers.HeaderOps{Set: http.Header{"A": {"b"}}}, Deferred: deferred}}
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, caddy.NewReplacer()))
		err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(inner http.ResponseWriter, _ *http.Request) error {
			found := routing.DeferredWriter(inner)
			if (found != nil) != deferred || found != nil && found.ResponseWriter != w {
				t.Errorf("deferred is %t, and found is %v", deferred, found)
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// hiddenWriter is one that tells only by Unwrap what it writes to.
type hiddenWriter struct {
	http.Flusher
	inner http.ResponseWriter
}

func (h hiddenWriter) Header() http.Header         { return h.inner.Header() }
func (h hiddenWriter) Write(b []byte) (int, error) { return h.inner.Write(b) }
func (h hiddenWriter) WriteHeader(status int)      { h.inner.WriteHeader(status) }
func (h hiddenWriter) Unwrap() http.ResponseWriter { return h.inner }

// The server's own writer is found beneath those of Caddy's handlers, and can be replaced there.
func TestServersWriter(t *testing.T) {
	own := httptest.NewRecorder()
	if place := routing.ServersWriter(own); place != nil {
		t.Errorf("it has %v within", *place)
	}
	recorder := func() http.ResponseWriter { return caddyhttp.NewResponseRecorder(own, nil, nil) }
	for name, wrapped := range map[string]http.ResponseWriter{
		"a recorder":        recorder(),
		"a wrapper":         &caddyhttp.ResponseWriterWrapper{ResponseWriter: own},
		"two":               &caddyhttp.ResponseWriterWrapper{ResponseWriter: recorder()},
		"a struct":          &struct{ http.ResponseWriter }{recorder()},
		"one that hides it": hiddenWriter{inner: recorder()},
		"a recorder's struct": &struct {
			*caddyhttp.ResponseWriterWrapper
		}{&caddyhttp.ResponseWriterWrapper{ResponseWriter: own}},
	} {
		place := routing.ServersWriter(wrapped)
		if place == nil || *place != own {
			t.Fatalf("%s: found %v", name, place)
		}
		other := httptest.NewRecorder()
		*place = other
		if wrapped.WriteHeader(http.StatusTeapot); other.Code != http.StatusTeapot {
			t.Errorf("%s: what is put there gets nothing", name)
		}
	}
	for name, wrapped := range map[string]http.ResponseWriter{
		"no writer":     &struct{ http.ResponseWriter }{},
		"another field": struct{ http.ResponseWriter }{own}, // can't be set
		"hides nothing": hiddenWriter{},
	} {
		if place := routing.ServersWriter(wrapped); place != nil {
			t.Errorf("%s: found %v", name, place)
		}
	}
}

// A handler is before a proxy if a later one may hand requests on to a server, or isn't known.
func TestProxies(t *testing.T) {
	const probe, proxy = `{"handler":"routing_probe"}`, `{"handler":"reverse_proxy"}`
	for routes, want := range map[string]bool{
		`{"handle":[` + probe + `,` + proxy + `]}`:                                                            true,
		`{"handle":[` + probe + `]},{"match":[{"path":["/a"]}],"handle":[` + proxy + `]}`:                     true,
		`{"handle":[` + probe + `,{"handler":"subroute","routes":[{"handle":[` + proxy + `]}]}]}`:             true,
		`{"handle":[` + probe + `,{"handler":"invoke","name":"x"}]}`:                                          true,
		`{"handle":[` + probe + `,{"handler":"static_response"}]}`:                                            false,
		`{"handle":[` + proxy + `,` + probe + `,{"handler":"file_server"}]}`:                                  false,
		`{"handle":[{"handler":"subroute","routes":[{"handle":[` + probe + `]}]},` + proxy + `]}`:             true,
		`{"group":"g","handle":[` + probe + `]},{"group":"g","handle":[` + proxy + `]}`:                       false,
		`{"terminal":true,"match":[{"host":["a.test"]}],"handle":[` + probe + `]},{"handle":[` + proxy + `]}`: false,
	} {
		for _, p := range view(t, `{"routes":[`+routes+`]}`).Places {
			if p.Name == "routing_probe" && p.Proxies() != want {
				t.Errorf("%s: %t, want %t", routes, !want, want)
			}
		}
	}
}

// Handlers are provisioned in the order of execution, nested ones before those around them are
// loaded, and error routes after all others.
func TestOrderOfProvisioning(t *testing.T) {
	var order []string
	seen = func(name string, server *caddyhttp.Server) {
		state := name + ":"
		for _, list := range []caddyhttp.RouteList{server.Routes, server.Errors.Routes} {
			for _, route := range list {
				switch {
				case len(route.Handlers) > 0 && len(route.HandlersRaw) == 0:
					state += " module"
				case len(route.Handlers) == 0 && len(route.HandlersRaw) > 0:
					state += " json"
				default:
					state += " between"
				}
			}
		}
		order = append(order, state)
	}
	defer func() { seen = nil }()
	provision(t, `{"listen":[":0"],"errors":{"routes":[{"handle":[{"handler":"routing_probe","name":"error"}]}]},"routes":[
		{"handle":[{"handler":"routing_probe","name":"first"}]},
		{"handle":[{"handler":"subroute","routes":[{"handle":[{"handler":"routing_probe","name":"nested"}]}]}]},
		{"handle":[{"handler":"routing_probe","name":"last"}]}]}`)
	want := []string{"first: json json json json", "nested: module json json json", "last: module module json json", "error: module module module json"}
	if !slices.Equal(order, want) {
		t.Errorf("provisioned in the order\n%s\nwant\n%s", strings.Join(order, "\n"), strings.Join(want, "\n"))
	}
}

// The package knows some of Caddy's handlers by their names.
func TestNamesOfHandlers(t *testing.T) {
	for _, name := range []string{
		"acme_server", "authentication", "error", "file_server", "headers", "intercept", "invoke", "map", "metrics", "reverse_proxy", "rewrite",
		"static_response", "subroute", "tracing", "vars",
	} {
		if _, err := caddy.GetModule("http.handlers." + name); err != nil {
			t.Errorf("Caddy has no handler %s any more", name)
		}
	}
}

// view returns the places of a config that isn't provisioned.
func view(t *testing.T, config string) *routing.View {
	t.Helper()
	var server caddyhttp.Server
	if err := json.Unmarshal([]byte(config), &server); err != nil {
		t.Fatal(err)
	}
	return routing.NewView(&server)
}

// What handlers set, and which routes they have, is read from their types.
func TestProvided(t *testing.T) {
	for handler, want := range map[string]string{
		`{"handler":"vars","plan":"gold"}`:                                                                                              "http.vars.plan",
		`{"handler":"map","source":"{http.request.host}","destinations":["{map.plan}"]}`:                                                "map.plan",
		`{"handler":"headers","request":{"set":{"x-user":["a"]}}}`:                                                                      "http.request.header.X-User",
		`{"handler":"headers","request":{"delete":["x-user"]}}`:                                                                         "http.request.header.X-User",
		`{"handler":"headers","response":{"add":{"x-user":["a"]}}}`:                                                                     "http.response.header.X-User",
		`{"handler":"authentication","providers":{"http_basic":{}}}`:                                                                    "http.auth.user.id",
		`{"handler":"reverse_proxy"}`:                                                                                                   "http.reverse_proxy.status_code",
		`{"handler":"intercept"}`:                                                                                                       "http.intercept.status_code",
		`{"handler":"subroute","routes":[{"handle":[{"handler":"vars","plan":"gold"}]}]}`:                                               "http.vars.plan",
		`{"handler":"subroute","errors":{"routes":[{"handle":[{"handler":"vars","plan":"gold"}]}]}}`:                                    "http.vars.plan",
		`{"handler":"reverse_proxy","handle_response":[{"routes":[{"handle":[{"handler":"headers","request":{"set":{"x":["y"]}}}]}]}]}`: "http.request.header.X",
	} {
		places := view(t, `{"routes":[{"handle":[`+handler+`,{"handler":"routing_probe"}]}]}`).Places
		before := places[len(places)-1].Before()
		if !before.Has(want) || before.Has("http.vars.other") || before.Anything {
			t.Errorf("%s sets %+v, want %s", handler, before, want)
		}
	}
}

// Places are told what hides them and who answers before them.
func TestPlaces(t *testing.T) {
	const probe, respond = `{"handler":"routing_probe"}`, `{"handler":"static_response"}`
	for _, tt := range []struct{ routes, never, leavings, site string }{
		{`{"handle":[` + probe + `,` + respond + `]}`, "", "", ""},
		{`{"handle":[` + respond + `,` + probe + `]}`, "respond before it answers them", "", ""},
		{`{"handle":[{"handler":"static_response","status_code":302,"headers":{"Location":["/x"]}},` + probe + `]}`, "redir before it answers them", "", ""},
		{`{"handle":[` + respond + `]},{"handle":[` + probe + `]}`, "respond before it answers them", "", ""},
		{`{"match":[{"path":["/a"]}],"handle":[` + respond + `]},{"handle":[` + probe + `]}`, "", "respond", ""},
		{`{"match":[{"path":["/a"]}],"handle":[` + respond + `]},{"handle":[` + probe + `,` + respond + `]}`, "", "", ""},
		{`{"match":[{"path":["/a"]}],"handle":[` + respond + `],"group":"g"},{"handle":[` + probe + `],"group":"g"}`, "", "", ""},
		{`{"handle":[{"handler":"vars"}],"group":"g"},{"handle":[` + probe + `],"group":"g"}`, "a route before it takes them", "", ""},
		{`{"handle":[{"handler":"static_response","status_code":103},` + probe + `]}`, "", "", ""},
		{`{"handle":[{"handler":"file_server","pass_thru":true},` + probe + `]}`, "", "", ""},
		{`{"match":[{"host":["b.test","A.test"]}],"handle":[` + probe + `],"terminal":true}`, "", "", "a.test b.test"},
	} {
		for _, p := range view(t, `{"routes":[`+tt.routes+`]}`).Places {
			if p.Name != "routing_probe" {
				continue
			}
			all := p.Witness(routing.Requests{})
			never, leavings := all.Never(), ""
			if unanswered, _ := all.Unanswered(); unanswered {
				leavings = all.Before()
			}
			if never != tt.never || leavings != tt.leavings || p.Site != tt.site {
				t.Errorf("%s: never seen because %q, leavings %q, site %q, want %q, %q and %q", tt.routes, never, leavings, p.Site, tt.never, tt.leavings, tt.site)
			}
		}
	}
}

// Error routes are matched with the request as it was sent, also by placeholders, and the request
// stays as it is.
func TestAnswersErrors(t *testing.T) {
	passes := func(h caddyhttp.MiddlewareHandler) bool { _, ok := h.(*probe); return ok }
	for matcher, want := range map[string]bool{
		`{"path":["/sent"]}`:                               true,
		`{"path":["/rewritten"]}`:                          false,
		`{"vars":{"{http.request.uri.path}":["/sent"]}}`:   true,
		`{"vars":{"{http.error.status_code}":["429"]}}`:    true,
		`{"expression":"{http.error.status_code} == 404"}`: false,
	} {
		server := provision(t, `{"listen":[":0"],"errors":{"routes":[{"handle":[{"handler":"routing_probe"}]},{"match":[`+matcher+`],"handle":[
			{"handler":"subroute","routes":[{"handle":[{"handler":"static_response"}]}]}]}]}}`)
		r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/sent", nil), caddy.NewReplacer(), httptest.NewRecorder(), server)
		sent := *r
		sentURL := *r.URL
		sent.URL = &sentURL
		r = r.WithContext(context.WithValue(r.Context(), caddyhttp.OriginalRequestCtxKey, sent))
		r.URL.Path, r.RequestURI = "/rewritten", "/rewritten"
		if got := routing.AnswersErrors(r, caddyhttp.HandlerError{StatusCode: 429}, passes); got != want {
			t.Errorf("%s: %t, want %t", matcher, got, want)
		}
		if r.URL.Path != "/rewritten" || r.RequestURI != "/rewritten" {
			t.Errorf("%s: the request is for %s afterwards", matcher, r.URL)
		}
	}
}
