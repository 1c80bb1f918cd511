package enforce

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/readahead"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// This file reads the bodies of requests before they hold units: for read_body, and for what the
// placeholders of the body are in.

// The bounds on bodies that are read, in bytes.
const (
	DefaultReadBody = 64 << 10
	MaxReadBody     = 1 << 20
	MaxBodies       = 64 << 20 // of all requests together
	peekedBody      = 64 << 10 // for placeholders
)

// Bodies is the memory of all bodies that have been read.
var Bodies = readahead.NewPool(MaxBodies)

// readBody reads the body of a request that is about to hold units, if a zone asks for that, so
// that it holds none while its client sends. It returns an error if the body can't be read, or is
// longer than the zone allows. It skips requests that memory knows to be refused.
func (e *Evaluation) readBody() error {
	most := e.readsBody()
	if most == 0 || !hasBody(e.Http) || e.isRefused() {
		return nil
	}
	if e.Http.ContentLength > most {
		return tooLong(most)
	}
	_, longer, err := e.readAhead(most)
	if longer {
		return tooLong(most)
	}
	return err
}

// hasBody reports whether a request has a body, as opposed to nothing or to a stream.
func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.Method != http.MethodConnect
}

// readAhead reads the body until it ends or is longer than most bytes.
func (e *Evaluation) readAhead(most int64) (body *readahead.Body, longer bool, err error) {
	network, _ := e.Handler.App.network(e.ClientIP())
	body = Bodies.Of(e.Http, network)
	switch longer, err = body.Fill(int(most)); {
	case err == nil:
		return body, longer, nil
	case e.Http.Context().Err() != nil:
		return nil, false, answer.ErrAbandoned
	case err == readahead.ErrLost:
		return nil, false, answer.ErrNoRoom
	}
	return nil, false, unreadable(err)
}

// peekBody sets the body's placeholders, if options have them, until unpeekBody. They hold at most
// 64 KiB, and one value for all longer bodies, which makes matchers return it as an error. Caddy's own
// placeholders read all of the body, each time that they are evaluated.
func (e *Evaluation) peekBody(wanted bool) error {
	if !wanted || e.peeked {
		return nil
	}
	var plain, encoded any = "", ""
	if hasBody(e.Http) {
		body, longer, err := e.readAhead(peekedBody)
		if err != nil {
			return err
		}
		text, err := body.Text()
		if err != nil {
			return answer.ErrNoRoom
		}
		plain, encoded = text, base64.StdEncoding.EncodeToString([]byte(text))
		if longer {
			plain, encoded = errLongBody, errLongBody
		}
	}
	e.Repl.Set(routing.Body, plain)
	e.Repl.Set(routing.BodyBase64, encoded)
	e.peeked = true
	return nil
}

// hear reads the body of a request over HTTP/1 that is about to wait, if it is short: net/http notices
// only then that a client goes away. The result is false if the body can't be read.
func (e *Evaluation) hear() bool {
	if r := e.Http; r.ProtoMajor == 1 && hasBody(r) && r.ContentLength <= DefaultReadBody {
		_, _, e.broken = e.readAhead(DefaultReadBody)
	}
	return e.broken == nil
}

// anyMatch reports whether any of some matcher sets matches a request. If that depends on a body too
// long to be read, it is as inDoubt says.
func anyMatch(sets caddyhttp.MatcherSets, r *http.Request, inDoubt bool) (bool, error) {
	matches, err := sets.AnyMatchWithError(r)
	if err != nil && errors.As(err, new(caddyhttp.RequestBodyLimitError)) {
		return inDoubt, nil
	}
	return matches, err
}

// unpeekBody gives the body's placeholders back to Caddy, for later handlers.
func (e *Evaluation) unpeekBody() {
	if e.peeked {
		e.Repl.Delete(routing.Body)
		e.Repl.Delete(routing.BodyBase64)
		e.peeked = false
	}
}

// errLongBody is the value of the placeholders for longer bodies.
var errLongBody error = caddyhttp.RequestBodyLimitError{Err: &http.MaxBytesError{Limit: peekedBody}}

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
