package endpoint

import "errors"

// Endpoint is the address of a backend's action. It is immutable.
type Endpoint struct {
	methods []string // upper case; none means any
	paths   []pattern
	query   []condition
}

// New returns an endpoint. Each of methods is an upper-case token; without any, all methods match.
// At least one path is required, of which one must match; each begins with a slash, and `*` stands
// for any text. All of query must match: it maps names of parameters to values, in which `*` stands
// for any text, too.
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
	return e.coversPath(r) && e.coversMethod(r) && e.mayHold(r, true)
}

// coversPath reports whether some backend may read the path as one of the endpoint's.
func (e *Endpoint) coversPath(r *Request) bool {
	if r.isPlain() {
		path := newSpelling(r.Path)
		return e.anyPath(func(p *pattern) bool { return p.covers(&path) })
	}
	if r.isUnread() {
		return true
	}
	read := r.reading()
	for i := range read.paths {
		path := &read.paths[i]
		if e.anyPath(func(p *pattern) bool {
			return read.disputed && p.mentioned(path.text) || !read.disputed && p.covers(path)
		}) {
			return true
		}
	}
	return false
}

// Names reports whether the request names the endpoint, in any encoding.
func (e *Endpoint) Names(r *Request) bool {
	return e.namesPath(r) && e.coversMethod(r) && e.mayHold(r, false)
}

func (e *Endpoint) namesPath(r *Request) bool {
	if r.isPlain() {
		return e.anyPath(func(p *pattern) bool { return p.names(r.Path) })
	}
	if r.isUnread() {
		return false
	}
	read := r.reading()
	for _, path := range read.paths[:read.named] {
		if e.anyPath(func(p *pattern) bool { return p.names(path.text) }) {
			return true
		}
	}
	return false
}

// mayHold reports whether some program may find that all conditions on the query are met; unread is
// the result for a query with more parameters than are read.
func (e *Endpoint) mayHold(r *Request, unread bool) bool {
	if len(e.query) == 0 {
		return true
	}
	var few [fewParameters]parameter
	params := r.parameters(few[:0])
	for i := range e.query {
		if !params.unread && !e.query[i].mayHold(params.list) {
			return false
		}
	}
	return !params.unread || unread
}

// Is reports whether the request is the endpoint, canonical and exactly as it is
// written, case included.
func (e *Endpoint) Is(r *Request) bool {
	if !r.IsCanonical() || !e.isMethod(r) || !e.anyPath(func(p *pattern) bool { return p.is(r.Path) }) {
		return false
	}
	if len(e.query) == 0 {
		return true
	}
	var few [fewParameters]parameter
	params := r.parameters(few[:0])
	for i := range e.query {
		if params.unread || params.mixed || !e.query[i].is(params.list) {
			return false
		}
	}
	return true
}

func (e *Endpoint) anyPath(matches func(*pattern) bool) bool {
	for i := range e.paths {
		if matches(&e.paths[i]) {
			return true
		}
	}
	return false
}
