package endpoint

import (
	"errors"
	"strings"
)

// Endpoint is what a backend does something for. It is immutable.
type Endpoint struct {
	methods   []string // upper case; none means any
	overrides []condition
	paths     []pattern
	query     []condition
}

// Request is what a server has received, as [net/http.Request] has it.
type Request struct {
	Method  string
	Header  map[string][]string
	Path    string // decoded once
	RawPath string // as received, where encoding Path gives something else; or ""
	Query   string // as received
	// Odd reports that the request target is not a path and a query: it has
	// a scheme, or is not hierarchical.
	Odd bool
}

// New returns an endpoint. Each of methods is an upper-case token; without any,
// all methods match. At least one path is required, of which one must match; each
// begins with a slash, and `*` stands for any text. All of query must hold: it
// maps names of parameters to values, in which `*` stands for any text, too.
func New(methods, paths []string, query map[string]string) (*Endpoint, error) {
	e := new(Endpoint)
	for _, m := range methods {
		if !IsMethod(m) {
			return nil, badMethod(m)
		}
		e.addMethod(m)
	}
	if len(paths) == 0 {
		return nil, errors.New("a path is missing: expected one such as /login, or /* for all")
	}
	for _, path := range paths {
		p, err := newPattern(path)
		if err != nil {
			return nil, err
		}
		e.paths = append(e.paths, p)
	}
	for key, value := range query {
		c, err := newCondition(key, value)
		if err != nil {
			return nil, err
		}
		e.query = append(e.query, c)
	}
	return e, nil
}

// Covers reports whether some backend may route the request to the endpoint.
func (e *Endpoint) Covers(r *Request) bool {
	more, ok := e.coversPath(r)
	return ok && e.coversMethod(r) && (holdAll(e.query, r.Query) || more != "" && holdAll(e.query, more))
}

// coversPath reports whether some backend may take the path for one of the
// endpoint's. more is what one that decodes too early takes for the query.
func (e *Endpoint) coversPath(r *Request) (more string, ok bool) {
	if r.isPlain() {
		return "", e.anyPath(r.Path, (*pattern).covers)
	}
	if r.Odd && !strings.HasPrefix(r.Path, "/") || r.isLong() {
		return "", true
	}
	read := readingsOf(r)
	if read.disputed {
		return read.query, true
	}
	for _, path := range read.paths {
		if e.anyPath(path, (*pattern).covers) {
			return read.query, true
		}
	}
	return "", false
}

// Names reports whether the request names the endpoint, in whatever encoding.
func (e *Endpoint) Names(r *Request) bool {
	return e.namesPath(r) && e.coversMethod(r) && holdAll(e.query, r.Query)
}

func (e *Endpoint) namesPath(r *Request) bool {
	if r.isPlain() {
		return e.anyPath(r.Path, (*pattern).names)
	}
	if r.isLong() {
		return false
	}
	for _, path := range readingsOf(r).paths {
		if e.anyPath(path, (*pattern).names) {
			return true
		}
	}
	return false
}

// Is reports whether the request is the endpoint, canonical and exactly as it is
// written, case included.
func (e *Endpoint) Is(r *Request) bool {
	if !r.IsCanonical() || !e.isMethod(r) {
		return false
	}
	for i := range e.query {
		if !e.query[i].is(r.Query) {
			return false
		}
	}
	return e.anyPath(r.Path, (*pattern).is)
}

func (e *Endpoint) anyPath(path string, matches func(*pattern, string) bool) bool {
	for i := range e.paths {
		if matches(&e.paths[i], path) {
			return true
		}
	}
	return false
}
