package accesslog

import "slices"

// Record is what a log says of one request. What it doesn't say has the zero value.
type Record struct {
	Arrived  int64 // nanoseconds since the Unix epoch
	Logged   int64 // the same, of when the line was written
	Rounded  bool  // the log has whole seconds only
	Duration int64 // nanoseconds

	RemoteIP, RemotePort string // the peer, which may be a proxy
	ClientIP             string // who the server took for the client; the peer if the log doesn't tell them apart
	User                 string // of authentication

	Method, Host, URI, Proto string
	TLS                      bool
	SchemeKnown              bool   // whether the log says if it was TLS
	ServerName               string // that the client asked for in TLS

	Status int
	Size   int64 // of the answer's body in bytes
	Read   int64 // of the request's body in bytes

	Header    []Field  // in the order of the log
	AllFields bool     // whether the log has all header fields, apart from those that it hides
	Hidden    []string // names of header fields whose values the log hides

	Refused Refusal // the verdict of a rate limiter that was in force

	text      arena
	absent    []string // names of header fields that the request didn't have
	noRequest bool     // what came was no HTTP
}

// Field is a line of a request's header. Names are canonical, as in [net/http.Header].
type Field struct{ Name, Value string }

// Refusal is what the access log of a Caddy with this module says of a request that was
// refused. The zero value is one that wasn't.
type Refusal struct{ Zone, Limit, Outcome string }

// reset makes the record one that nothing is known of. It keeps its memory.
func (r *Record) reset() {
	clear(r.Header)
	*r = Record{Header: r.Header[:0], Hidden: r.Hidden[:0], absent: r.absent[:0], text: r.text}
	r.text.reset()
}

// Value returns the first value of a header field, or "".
func (r *Record) Value(name string) string {
	for _, f := range r.Header {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// Hides reports whether the log can't tell whether the request had a header field, or what it
// was. The name must be canonical.
func (r *Record) Hides(name string) bool {
	if slices.Contains(r.Hidden, name) {
		return true
	}
	return !r.AllFields && !slices.Contains(r.absent, name) && r.Value(name) == ""
}

// complete fills in what follows from the rest.
func (r *Record) complete() error {
	if r.RemoteIP == "" {
		r.RemoteIP = r.ClientIP
	}
	if r.ClientIP == "" {
		r.ClientIP = r.RemoteIP
	}
	switch {
	case r.noRequest:
		return errOther
	case r.Logged == 0:
		return errNoTime
	case r.Method == "" || r.URI == "":
		return errNoRequest
	}
	if r.Arrived == 0 {
		r.Arrived = r.Logged - max(r.Duration, 0)
	}
	return nil
}

// arena collects the texts of a record, so that they are one piece of memory.
type arena struct {
	buf   []byte
	spans []span
}

// span is a text of a record that is still to be set.
type span struct {
	to       *string
	from, up int
}

func (a *arena) reset() { a.buf, a.spans = a.buf[:0], a.spans[:0] }

// set has a text of the record be s, once done is called. s is copied.
func (a *arena) set(to *string, s []byte) {
	if len(s) == 0 {
		*to = ""
		return
	}
	a.buf = append(a.buf, s...)
	a.spans = append(a.spans, span{to, len(a.buf) - len(s), len(a.buf)})
}

// done sets all texts.
func (a *arena) done() {
	text := string(a.buf)
	for _, s := range a.spans {
		*s.to = text[s.from:s.up]
	}
	a.reset()
}
