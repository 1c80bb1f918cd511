package caddytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// A Caddy of the tests that runs a recipe has the software behind the recipe in it, and all but the
// first request of a wave begin there: thousands of requests over TLS and through proxies would
// show nothing more than that one. With PROOF all of them go the whole way.

func init() {
	caddy.RegisterModule(inside{})
	caddy.RegisterModule(standInTransport{})
}

// hasInside reports whether the Caddys of the tests are these tests, and do so.
func hasInside() bool { return os.Getenv("CADDYTEST_BINARY") == "" && !proof.IsOn() }

// insideWave is a wave for the site on a port.
type insideWave struct {
	From, Port, Line string
	First, Last      int // numbers of the requests
	Want             int
	Fields           []string
}

// insideResult is how many of its answers were wrong, and the first of these.
type insideResult struct {
	Wrong int
	First string
}

// sendInside has Caddy send what follows the first request of a wave to itself.
func (s *recipeServer) sendInside(w wave) (wrong int, first string) {
	s.t.Helper()
	port := s.tls
	if strings.Contains(w.line, " http:") {
		port = s.port
	}
	wave, err := json.Marshal(insideWave{w.from, port, w.line, 2, w.n, w.want, w.fields})
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, "http://"+s.admin+"/caddytest/wave", bytes.NewReader(wave))
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := do(s.server.client, r)
	var result insideResult
	if err != nil || json.Unmarshal([]byte(a.body), &result) != nil {
		s.t.Fatalf("%v: %d: %s", err, a.status, a.body)
	}
	return result.Wrong, result.First
}

// inside is an endpoint for waves.
type inside struct{}

// CaddyModule returns the Caddy module information.
func (inside) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.caddytest", New: func() caddy.Module { return new(inside) }}
}

// Routes implements caddy.AdminRouter.
func (i inside) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: "/caddytest/wave", Handler: caddy.AdminHandlerFunc(i.serve)}}
}

func (inside) serve(w http.ResponseWriter, r *http.Request) error {
	var wave insideWave
	if err := json.NewDecoder(r.Body).Decode(&wave); err != nil {
		return err
	}
	site, err := siteOn(wave.Port)
	if err != nil {
		return err
	}
	var result insideResult
	result.Wrong, result.First = inTurns(wave.First, wave.Last, wave.Want, func(n int) (answer, error) {
		r, err := requestOf(wave.Line, wave.Fields, n)
		if err != nil {
			return answer{}, err
		}
		return ask(site, r, wave.From), nil
	})
	return json.NewEncoder(w).Encode(result)
}

// siteOn returns the server of the running config that listens on a port.
func siteOn(port string) (*caddyhttp.Server, error) {
	app, err := caddy.ActiveContext().App("http")
	if err != nil {
		return nil, err
	}
	for _, server := range app.(*caddyhttp.App).Servers {
		if slices.Contains(server.Listen, "127.0.0.1:"+port) {
			return server, nil
		}
	}
	return nil, fmt.Errorf("no server listens on port %s", port)
}

// ask has a handler answer what a client with an address sends, as over HTTP/2.
func ask(h http.Handler, sent *http.Request, from string) answer {
	r := httptest.NewRequest(sent.Method, sent.URL.String(), nil)
	r.Header, r.Body, r.ContentLength = sent.Header, http.NoBody, sent.ContentLength
	if sent.Body != nil {
		r.Body = sent.Body
	}
	if sent.ContentLength > 0 || sent.ContentLength == 0 && strings.HasPrefix(sent.Method, "P") {
		r.Header.Set("Content-Length", fmt.Sprint(sent.ContentLength))
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "Go-http-client/2.0")
	}
	r.URL.Scheme, r.URL.Host, r.RequestURI = "", "", r.URL.RequestURI()
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	r.RemoteAddr = net.JoinHostPort(from, "50000")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// standInTransport hands requests to what stands behind a recipe.
type standInTransport struct {
	Recipe string `json:"recipe"`
	Doors  []door `json:"doors,omitempty"`

	backends map[string]http.Handler // by address
}

// CaddyModule returns the Caddy module information.
func (standInTransport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.transport.caddytest", New: func() caddy.Module { return new(standInTransport) }}
}

// Provision implements caddy.Provisioner.
func (s *standInTransport) Provision(caddy.Context) error {
	s.backends = make(map[string]http.Handler)
	for _, r := range recipes {
		if r.name == s.Recipe {
			for address, backend := range r.backends {
				if len(s.Doors) > 0 {
					backend = behind(s.Doors)
				}
				s.backends[address] = backend.mux()
			}
		}
	}
	return nil
}

func (s *standInTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	backend := s.backends[r.URL.Host]
	if r.URL.Host == os.Getenv("ADMIN") { // Caddy's own
		r.URL.Scheme = "http"
		return http.DefaultTransport.RoundTrip(r)
	}
	if backend == nil {
		return nil, fmt.Errorf("nothing stands in for %s", r.URL.Host)
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	backend.ServeHTTP(w, r)
	return w.Result(), nil
}

// useStandIns has the proxies in a config hand requests to what stands in for software, by a transport.
func useStandIns(config, transport any) {
	switch c := config.(type) {
	case []any:
		for _, each := range c {
			useStandIns(each, transport)
		}
	case map[string]any:
		if c["handler"] == "reverse_proxy" {
			c["transport"] = transport
		}
		for _, each := range c {
			useStandIns(each, transport)
		}
	}
}
