package settle

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// statusOf returns the status that Caddy writes if a handler wrote none: that of the handler's
// error, or 200.
func statusOf(err error) int {
	if err == nil {
		return http.StatusOK
	}
	if failed, ok := errors.AsType[caddyhttp.HandlerError](err); ok && failed.StatusCode != 0 {
		return failed.StatusCode
	}
	return http.StatusInternalServerError
}

// settledBy is the answer that settles debits. Its status is 0 until it is known.
type settledBy struct {
	status   int
	header   http.Header // of the answer; nil if there is none
	unread   bool        // its trailers, which it has in its body, can't be read
	left     bool        // the client left before a status was written, or broke off its body
	replaced statuses    // the statuses that this one replaced
}

// counts reports whether a zone counts the answer.
func (s settledBy) counts(c *Count) bool {
	if c.answered(s.status, s.header) || s.left && (c.Hold || c.Counts(statusLeft)) || s.unread && c.inTrailers() {
		return true
	}
	for _, status := range s.replaced {
		if status != 0 && c.Counts(status) {
			return true
		}
	}
	return false
}

// replacers are the placeholders that hold the status of an answer that a handler may replace:
// reverse_proxy with handle_response or replace_status, intercept, and the error routes of a
// subroute.
var replacers = [...]string{"http.reverse_proxy.status_code", "http.intercept.status_code", "http.error.status_code"}

// statuses has a status for each of replacers, or 0.
type statuses [len(replacers)]int

func statusesIn(repl *caddy.Replacer) (s statuses) {
	for i, name := range replacers {
		value, _ := repl.Get(name)
		s[i], _ = value.(int)
	}
	return s
}

// since returns the statuses that differ from before. It omits a 2xx of reverse_proxy, which may be
// that of a forward_auth that passed the request to another handler.
func (s statuses) since(before statuses) statuses {
	for i := range s {
		if s[i] == before[i] || i == 0 && s[i]/100 == 2 {
			s[i] = 0
		}
	}
	return s
}

// watchedBody is a request's body that notes when its client fails to send it. Without a body it
// does nothing.
type watchedBody struct {
	io.ReadCloser
	read, broken, closed atomic.Bool
}

// watch wraps the body of a request.
func (b *watchedBody) watch(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		b.ReadCloser, r.Body = r.Body, b
	}
}

// Read implements io.Reader. Errors after Close aren't the client's fault.
func (b *watchedBody) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	if n > 0 {
		b.read.Store(true)
	}
	if err != nil && err != io.EOF && !b.closed.Load() {
		b.broken.Store(true)
	}
	return n, err
}

// Close implements io.Closer.
func (b *watchedBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

// noteError notes that a later handler stopped reading a body that exceeded its maximum.
func (b *watchedBody) noteError(err error) {
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong && b.read.Load() {
		b.broken.Store(true)
	}
}
