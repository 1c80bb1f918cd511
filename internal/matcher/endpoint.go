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
	for d.Next() {
		if e.Paths != nil {
			return d.Err("endpoint: there is one in this set of matchers already, got another: expected a set of matchers for each")
		}
		if err := e.parse(d.RemainingArgs()); err != nil {
			return d.Errf("endpoint: %w", err)
		}
		if d.NextBlock(0) {
			return d.Err("endpoint: expected one line, got a block: endpoint POST /login")
		}
	}
	return nil
}

// parse reads methods, paths and conditions, in this order.
func (e *Endpoint) parse(args []string) error {
	if err := checkCommas(args); err != nil {
		return err
	}
	rest := args
	for len(rest) > 0 && endpoint.IsMethod(rest[0]) {
		e.Methods, rest = append(e.Methods, rest[0]), rest[1:]
	}
	for len(rest) > 0 && strings.HasPrefix(rest[0], "/") {
		e.Paths, rest = append(e.Paths, rest[0]), rest[1:]
	}
	if len(e.Paths) == 0 {
		return fmt.Errorf("a path is missing, got %q: expected methods, paths and conditions on the query, as in POST /login mode=heavy", strings.Join(args, " "))
	}
	for _, arg := range rest {
		if err := e.parseCondition(arg); err != nil {
			return err
		}
	}
	_, err := endpoint.New(e.Methods, e.Paths, e.Query)
	return err
}

func (e *Endpoint) parseCondition(arg string) error {
	key, value, found := strings.Cut(arg, "=")
	if !found {
		return fmt.Errorf("got %q behind the path, where conditions on the query have a value, such as mode=heavy: %s", arg, insteadOfCondition(arg))
	}
	if other, taken := e.Query[key]; taken {
		return fmt.Errorf("there are two conditions on %q, %q and %q: expected one; more lines are alternatives", key, other, value)
	}
	if e.Query == nil {
		e.Query = make(map[string]string)
	}
	e.Query[key] = value
	return nil
}

// insteadOfCondition returns a replacement for a word after the path.
func insteadOfCondition(word string) string {
	_, errDuration := caddy.ParseDuration(word)
	_, errModule := caddy.GetModule("http.matchers." + word)
	switch {
	case IsMethod(word), endpoint.IsMethod(word):
		return fmt.Sprintf("write the method before the path, as in %s /login; %s=* is a parameter of this name", strings.ToUpper(word), word)
	case strings.HasPrefix(word, "/"):
		return "write paths before the conditions, as in /login /signin mode=heavy"
	case word == "ban", errDuration == nil:
		return "write ban and its duration before the path of a trap: trap ban 1h /wp-login.php"
	case slices.Contains([]string{"ip", "client", "api_key", "everyone"}, word):
		return "write what is counted by in a line of its own: per " + word
	case errModule == nil:
		return "it is a matcher: write matchers into a block, each in a line of its own"
	}
	return fmt.Sprintf("write %s=* for any value of the parameter %s", word, word)
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
	m := new(Endpoint)
	if err := m.parse(d.RemainingArgs()); err != nil {
		return nil, d.WrapErr(err)
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
