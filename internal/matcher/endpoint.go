package matcher

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/endpoint"
	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

func init() {
	caddy.RegisterModule(Endpoint{})
}

// Endpoint matches requests that a backend may read as those of an endpoint, in every spelling:
// `/login` also as `/login/`, `/LOGIN`, `/login.json`, `/login;x`, `/%6cogin`, `//login` or
// `/index.php/login`. Caddy's matchers `path` and `query` don't match all of these, although
// backends accept them, so clients can bypass a limit. It matches too much rather than too little:
// don't use it to allow requests.
//
// In `exempt` and `not` of a `rate_limit` handler, and where it lowers a `cost`, it matches only
// the exact spelling; in a `trap`, only requests that name the path in some encoding.
//
// If an earlier handler has rewritten a request, it matches if either the original or the rewritten
// request does; where it must match exactly, if both do.
//
// It ignores the body of a request.
type Endpoint struct {
	// The methods, in capitals; `GET` includes `HEAD`. The method in `X-HTTP-Method-Override`, or
	// in `_method` in the query, counts as well. Default: all.
	Methods []string `json:"methods,omitempty"`

	// The paths, of which one must match. `/login` is that path, and every path that a backend may
	// read as it: with an extension, after a script, or followed by a file. `/api/*` is `/api` and
	// everything below it. A `*` elsewhere is any text, including slashes. Required.
	Paths []string `json:"paths,omitempty"`

	// Parameters of the query with their required values. A `*` is any text, as in paths: `q=*`,
	// `rest_route=/wp/v2/search*`. A parameter is matched in all forms that backends accept, such
	// as `mode[]` for `mode`. If there are several of a name, one must match.
	Query map[string]string `json:"query,omitempty"`

	endpoint *endpoint.Endpoint
	reading  reading
}

// reading is the precision of matching an endpoint.
type reading int

const (
	anySpelling  reading = iota // every spelling that some backend accepts
	anyEncoding                 // every encoding of the path itself
	exactlyAsWas                // the exact spelling
)

// CaddyModule returns the Caddy module information.
func (Endpoint) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.endpoint", New: func() caddy.Module { return new(Endpoint) }}
}

// Provision checks the endpoint.
func (e *Endpoint) Provision(caddy.Context) (err error) {
	e.endpoint, err = endpoint.New(e.Methods, e.Paths, e.Query)
	return err
}

// MatchWithError reports whether a request is one of the endpoint's. It never returns an error.
func (e *Endpoint) MatchWithError(r *http.Request) (bool, error) {
	matches := e.matches(r)
	if matches != (e.reading == exactlyAsWas) { // the original request doesn't matter
		return matches, nil
	}
	if original := Original(r); original != nil {
		return e.matches(original), nil
	}
	return matches, nil
}

// matches reports whether a request in its current form is one of the endpoint's.
func (e *Endpoint) matches(r *http.Request) bool {
	Received := received(r)
	switch e.reading {
	case exactlyAsWas:
		return e.endpoint.Is(&Received)
	case anyEncoding:
		return e.endpoint.Names(&Received)
	}
	return e.endpoint.Covers(&Received)
}

// received returns the endpoint package's form of a request.
func received(r *http.Request) endpoint.Request {
	return endpoint.Request{
		Method: r.Method, Header: r.Header, Path: r.URL.Path, RawPath: r.URL.RawPath, Query: r.URL.RawQuery,
		Odd: r.URL.Host != "" || r.URL.Opaque != "", Tunnel: isTunnel(r), Memory: readingsIn{r},
	}
}

// isTunnel reports whether a request is an extended CONNECT, which opens a WebSocket over HTTP/2,
// where Go adds a field, or HTTP/3, where quic-go sets the protocol. Caddy's reverse proxy forwards
// it as a GET.
func isTunnel(r *http.Request) bool {
	return r.Method == http.MethodConnect && (r.Header[":protocol"] != nil || !strings.HasPrefix(r.Proto, "HTTP/"))
}

// readingsIn keeps the readings of a request among its variables, for later matchers, including
// those of other handlers.
type readingsIn struct{ http *http.Request }

const readingsVar = "rate_limit.readings"

// Readings implements [endpoint.Memory].
func (r readingsIn) Readings() *endpoint.Readings {
	vars, ok := r.http.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	if !ok {
		return new(endpoint.Readings)
	}
	readings, ok := vars[readingsVar].(*endpoint.Readings)
	if !ok {
		readings = new(endpoint.Readings)
		vars[readingsVar] = readings
	}
	return readings
}

// UnmarshalCaddyfile sets up the matcher from Caddyfile tokens. Syntax:
//
//	endpoint [<methods...>] <paths...> [<key>=<value>...]
func (e *Endpoint) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	line := grammar.Line("endpoint [<methods...>] <paths...> [<key>=<value>...]", e.setMethods, e.setPaths, e.setQuery)
	return line.Then(e.check).ReadAll(d)
}

func (e *Endpoint) setMethods(words []string) (n int, err error) {
	n = before(words, func(word string) bool { return !endpoint.IsMethod(word) })
	e.Methods = words[:n:n]
	return n, checkCommas(words)
}

func (e *Endpoint) setPaths(words []string) (n int, err error) {
	if n = before(words, func(word string) bool { return !strings.HasPrefix(word, "/") }); n == 0 {
		return 0, fmt.Errorf("got %q, where a path is expected", words[0])
	}
	e.Paths = words[:n:n]
	return n, nil
}

// setQuery sets the conditions on the query.
func (e *Endpoint) setQuery(words []string) (int, error) {
	e.Query = make(map[string]string)
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found {
			return 0,
				fmt.Errorf("got %q behind the path: a condition on the query has a value, such as mode=heavy or q=*",
					word)
		}
		if other, taken := e.Query[key]; taken {
			return 0, fmt.Errorf("there are two conditions on %q, %q and %q: expected one; more lines are alternatives",
				key, other, value)
		}
		e.Query[key] = value
	}
	return len(words), nil
}

// before returns how many words stand before one that is another.
func before(words []string, isOther func(string) bool) int {
	if n := slices.IndexFunc(words, isOther); n >= 0 {
		return n
	}
	return len(words)
}

func (e *Endpoint) check() error {
	_, err := endpoint.New(e.Methods, e.Paths, e.Query)
	return err
}

// NextIsEndpoint reports whether the next argument begins an endpoint: a path, or a method. No
// matcher has a method's name.
func NextIsEndpoint(d *caddyfile.Dispenser) bool {
	if !d.NextArg() {
		return false
	}
	next := d.Val()
	d.Prev()
	return strings.HasPrefix(next, "/") || endpoint.IsMethod(next)
}

// UnmarshalEndpoint reads an endpoint without the name of its matcher.
func UnmarshalEndpoint(d *caddyfile.Dispenser) (caddy.ModuleMap, error) {
	d.NextArg()
	word := d.Token()
	word.Text = "endpoint"
	m := new(Endpoint)
	if err := m.UnmarshalCaddyfile(
		caddyfile.NewDispenser(append([]caddyfile.Token{word}, d.NextSegment()...))); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(m)
	return caddy.ModuleMap{"endpoint": raw}, err
}

// line returns the endpoint as in a Caddyfile.
func (e *Endpoint) line() string {
	words := slices.Concat(e.Methods, e.Paths)
	for key, value := range e.Query {
		words = append(words, key+"="+value)
	}
	slices.Sort(words[len(words)-len(e.Query):])
	return strings.Join(words, " ")
}

// Interface guards
var (
	_ caddy.Provisioner                 = (*Endpoint)(nil)
	_ caddyfile.Unmarshaler             = (*Endpoint)(nil)
	_ caddyhttp.RequestMatcherWithError = (*Endpoint)(nil)
)
