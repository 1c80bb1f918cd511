package tally

// This file has what settles whether a request counts by the status of its answer.

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
)

// settledBy is the status of an answer; 0 until it is known.
type settledBy struct {
	status   int
	left     bool     // the client has left before a status was written, or broken off its body
	replaced statuses // the statuses in place of which this one was written
}

// counts reports whether a zone counts the answer.
func (s settledBy) counts(c *countRule) bool {
	if c.counts(s.status) || s.left && (c.Hold || c.counts(statusLeft)) {
		return true
	}
	for _, status := range s.replaced {
		if status != 0 && c.counts(status) {
			return true
		}
	}
	return false
}

// replacers are the placeholders in which handlers keep the status of an answer that they may
// replace with another: reverse_proxy with handle_response or replace_status, intercept, and the
// error routes of a subroute.
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

// since returns the statuses that are others than before. A 2xx of reverse_proxy is none: it may be
// that of forward_auth, which let the request go on to another handler.
func (s statuses) since(before statuses) statuses {
	for i := range s {
		if s[i] == before[i] || i == 0 && s[i]/100 == 2 {
			s[i] = 0
		}
	}
	return s
}

// watchedBody is the body of a request, and notes when its client fails to send it. Without a body
// it notes nothing.
type watchedBody struct {
	io.ReadCloser
	read, broken, closed atomic.Bool
}

// watch makes b the body of a request.
func (b *watchedBody) watch(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		b.ReadCloser, r.Body = r.Body, b
	}
}

// Read implements io.Reader. What fails after Close isn't the client's fault.
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

// noteError notes that a later handler had enough of a body that was too long for it.
func (b *watchedBody) noteError(err error) {
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong && b.read.Load() {
		b.broken.Store(true)
	}
}
