package enforce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// This file reads the bodies of requests before they hold units.

// The bounds of read_body, in bytes.
const (
	DefaultReadBody = 64 << 10
	MaxReadBody     = 1 << 20
	MaxBodies       = 64 << 20 // of all requests together
)

// Bodies is the memory of all bodies that have been read, in bytes.
var Bodies atomic.Int64

// readBody reads the body of a request that is about to hold units, if a zone asks for that, so
// that it holds none while its client sends. It returns an error if the body can't be read, or is
// longer than the zone allows. It skips requests that memory knows to be refused, and bodies that
// exceed MaxBodies.
func (e *Evaluation) readBody() error {
	r, most := e.Http, e.readsBody()
	if most == 0 || r.Body == nil || r.Body == http.NoBody || r.Method == http.MethodConnect || e.isRefused() {
		return nil
	}
	if r.ContentLength > most {
		return tooLong(most)
	}
	n, err := e.buffer(most)
	if err == nil && n > most {
		return tooLong(most)
	}
	return err
}

// hear reads the body of a request over HTTP/1 that is about to wait, if it is short: net/http notices
// only then that a client goes away. The result is false if the body can't be read.
func (e *Evaluation) hear() bool {
	r := e.Http
	_, heard := r.Body.(bufferedBody)
	if !heard && r.ProtoMajor == 1 && r.Body != nil && r.ContentLength != 0 && r.ContentLength <= DefaultReadBody {
		_, e.broken = e.buffer(DefaultReadBody)
	}
	return e.broken == nil
}

// buffer reads a body of at most most bytes into memory, or the beginning of a longer one. It returns
// how much it has read: nothing if there is no room.
func (e *Evaluation) buffer(most int64) (int64, error) {
	r, room := e.Http, e.Http.ContentLength
	if room < 0 {
		room = most
	}
	if Bodies.Add(room) > MaxBodies {
		Bodies.Add(-room)
		return 0, nil
	}
	context.AfterFunc(r.Context(), func() { Bodies.Add(-room) })
	var body bytes.Buffer
	n, err := body.ReadFrom(io.LimitReader(r.Body, most+1))
	switch {
	case r.Context().Err() != nil:
		return n, errAbandoned
	case err != nil:
		return n, unreadable(err)
	}
	r.Body = bufferedBody{io.MultiReader(&body, r.Body), r.Body}
	return n, nil
}

// bufferedBody is a body that has been read.
type bufferedBody struct {
	io.Reader
	io.Closer
}

func tooLong(most int64) error {
	return caddyhttp.Error(http.StatusRequestEntityTooLarge, &http.MaxBytesError{Limit: most})
}

// unreadable returns the error for a request with an unreadable body: that of an earlier handler
// that rejects the body's length, or 400.
func unreadable(err error) error {
	if failed, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		return failed
	}
	return caddyhttp.Error(http.StatusBadRequest, fmt.Errorf("reading the body: %w", err))
}

// readsBody returns the longest body to read before the request holds units, or 0 if none is read.
func (e *Evaluation) readsBody() (most int64) {
	for _, p := range e.Policies {
		if c := p.Zone.Count; c != nil && c.ReadBody > 0 && (most == 0 || c.ReadBody < most) {
			most = c.ReadBody
		}
	}
	return most
}

// isRefused reports whether memory knows that the request is refused.
func (e *Evaluation) isRefused() bool {
	h := e.Handler.App.Use()
	if h == nil {
		return false
	}
	if e.Subject != nil {
		if record := h.Engine.CachedRecord(engine.Client{Key: e.Subject.Key}); record != nil && record.Banned(h.Engine.Now()) {
			return true
		}
	}
	return h.Engine.Refuses(e.Debits)
}
