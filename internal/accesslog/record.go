package accesslog

import (
	"cmp"
	"slices"
	"strings"
)

// Record is a request in a log. Unknown fields have the zero value.
type Record struct {
	Arrived  int64 // nanoseconds since the Unix epoch
	Logged   int64 // when the line was written, in the same unit
	Rounded  bool  // the log has only whole seconds
	Duration int64 // nanoseconds

	RemoteIP, RemotePort string // the peer, which may be a proxy
	ClientIP             string // the client in the server's view; the peer if the log doesn't distinguish them
	User                 string // the authenticated user

	Method, Host, URI, Proto string
	TLS                      bool
	SchemeKnown              bool   // whether the log tells if it was TLS
	ServerName               string // the requested name in TLS

	Status int
	Size   int64 // of the answer's body in bytes
	Read   int64 // of the request's body in bytes

	Header    []Field  // in the order of the log
	AllFields bool     // whether the log has all header fields, except hidden ones
	Hidden    []string // names of header fields with hidden values

	Refused Refusal // the verdict of the rate limiter in force

	text      arena
	absent    []string // names of header fields that the request lacked
	number    int64    // in the order of the logs
	noRequest bool     // the connection didn't use HTTP
}

// Field is a line of a request's header. Names are canonical, as in [net/http.Header].
type Field struct{ Name, Value string }

// Refusal is a refusal in the access log of a Caddy with this module. The zero value is no refusal.
type Refusal struct{ Zone, Limit, Outcome string }

// reset empties the record, but keeps its memory.
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

// Hides reports whether the log can't tell if the request had a header field, or its value. The
// name must be canonical.
func (r *Record) Hides(name string) bool {
	if slices.Contains(r.Hidden, name) {
		return true
	}
	return !r.AllFields && !slices.Contains(r.absent, name) && r.Value(name) == ""
}

// Folder returns a pattern for the path: of its first two folders, or the path itself if it is in none.
func (r *Record) Folder() string {
	path, _, _ := strings.Cut(r.URI, "?")
	parts := strings.SplitN(path, "/", 5)
	if len(parts) < 3 {
		return path
	}
	return strings.Join(parts[:min(len(parts)-1, 3)], "/") + "/*"
}

// complete derives fields from others.
func (r *Record) complete() error {
	r.RemoteIP = cmp.Or(r.RemoteIP, r.ClientIP)
	r.ClientIP = cmp.Or(r.ClientIP, r.RemoteIP)
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

// arena collects the texts of a record in one piece of memory.
type arena struct {
	buf   []byte
	spans []span
}

// span is a text of a record that isn't set yet.
type span struct {
	to       *string
	from, up int
}

func (a *arena) reset() { a.buf, a.spans = a.buf[:0], a.spans[:0] }

// set sets a text of the record to s when done is called. It copies s.
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
