package enforce

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
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
	maxBodies       = 64 << 20 // of all requests together
	peekedBody      = 64 << 10 // for placeholders
)

// bodies is the memory of all bodies that have been read.
var bodies = readahead.NewPool(maxBodies)

// body is what has been read of a request's body.
type body struct {
	peeked  bool              // its placeholders hold the beginning
	kind    bodyfield.Type    // if fields are read
	fields  []bodyfield.Value // those of the handler, which are in placeholders; nil if they aren't read
	keys    [][]string        // of each field, once they are needed
	reading int               // the one of a key's readings that counts now
	broken  error             // why it couldn't be read before the request waited; or nil
	doubted bool              // something has asked for what isn't known of it
}

// BodyUse is what options use of bodies.
type BodyUse struct {
	Whole  bool // Caddy's placeholders
	Fields bool // ours
}

// readBody reads the body of a request that is about to hold units, if a zone asks for that, so
// that it holds none while its client sends. It returns an error if the body can't be read, or is
// longer than the zone allows. It skips requests that memory knows to be refused.
func (e *Evaluation) readBody() error {
	most := e.Charges.readsBody()
	if most == 0 || !hasBody(e.Http) || e.Handler.Config.refuses(e.Subject, e.Debits) {
		return nil
	}
	if e.Http.ContentLength > most {
		return tooLong(most)
	}
	_, longer, err := e.body.readAhead(&e.Verdict, most)
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
func (b *body) readAhead(v *Verdict, most int64) (read *readahead.Body, longer bool, err error) {
	network, _ := v.Handler.Config.network(v.ClientIP())
	read = bodies.Of(v.Http, network)
	switch longer, err = read.Fill(int(most)); {
	case err == nil:
		return read, longer, nil
	case v.Http.Context().Err() != nil:
		return nil, false, answer.ErrAbandoned
	case err == readahead.ErrLost:
		return nil, false, answer.ErrNoRoom
	}
	return nil, false, unreadable(err)
}

// peek sets the body's placeholders, if options have them, until unpeek. They hold at most 64 KiB, and a
// doubt for longer bodies. Caddy's own placeholders read all of the body, each time that they are evaluated.
func (b *body) peek(v *Verdict, use BodyUse) error {
	if use.Fields && b.fields == nil {
		if err := b.readFields(v); err != nil {
			return err
		}
	}
	if !use.Whole || b.peeked {
		return nil
	}
	var plain, encoded any = "", ""
	if hasBody(v.Http) {
		read, longer, err := b.readAhead(v, peekedBody)
		if err != nil {
			return err
		}
		text, err := read.Text()
		if err != nil {
			return answer.ErrNoRoom
		}
		plain, encoded = text, base64.StdEncoding.EncodeToString([]byte(text))
		if longer {
			err = doubt{b, &http.MaxBytesError{Limit: peekedBody}}
			plain, encoded = err, err
		}
	}
	v.Repl.Set(routing.Body, plain)
	v.Repl.Set(routing.BodyBase64, encoded)
	b.peeked = true
	return nil
}

// hear reads the body of a request over HTTP/1 that is about to wait, if it is short: net/http notices
// only then that a client goes away. The result is false if the body can't be read.
func (b *body) hear(v *Verdict) bool {
	if r := v.Http; r.ProtoMajor == 1 && hasBody(r) && r.ContentLength <= DefaultReadBody {
		_, _, b.broken = b.readAhead(v, DefaultReadBody)
	}
	return b.broken == nil
}

// anyMatch reports whether any of some matcher sets matches a request, whichever of its values programs read: with
// inDoubt that one of them matches, and otherwise that all do. If that depends on a body that can't be read, or on
// too many values, it is as inDoubt says.
func (e *Evaluation) anyMatch(sets caddyhttp.MatcherSets, reads *Reads, inDoubt bool) (matches bool, err error) {
	if !e.each(reads, false, func() bool {
		var unknown bool
		if matches, unknown, err = e.match(sets); unknown {
			matches = inDoubt
		}
		return err == nil && matches != inDoubt
	}) {
		return inDoubt, nil
	}
	return matches, err
}

// match reports whether any of some matcher sets matches the request, unless that is unknown because it depends on
// a body that can't be read.
func (e *Evaluation) match(sets caddyhttp.MatcherSets) (matches, unknown bool, err error) {
	e.body.doubted = false
	matches, err = sets.AnyMatchWithError(e.Http)
	if e.body.doubted || err != nil && errors.As(err, new(doubt)) {
		return false, true, nil
	}
	return matches, false, err
}

// doubt is the value of a placeholder for what isn't known of a body. Expressions return it as an error, other
// matchers of Caddy take its text.
type doubt struct {
	body *body
	error
}

func (d doubt) Error() string {
	d.body.doubted = true
	return d.error.Error()
}

// unpeek gives the body's placeholders back to Caddy, for later handlers.
func (b *body) unpeek(v *Verdict) {
	repl := v.Repl
	for i := range b.fields {
		repl.Delete(v.Handler.Fields[i].Placeholder)
	}
	b.fields = nil
	if b.peeked {
		repl.Delete(routing.Body)
		repl.Delete(routing.BodyBase64)
		b.peeked = false
	}
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
func (c *Charges) readsBody() (most int64) {
	for _, p := range c.Policies {
		if by := p.Zone.Count; by != nil && by.ReadBody > 0 && (most == 0 || by.ReadBody < most) {
			most = by.ReadBody
		}
	}
	return most
}

// refuses reports whether memory knows that a request is refused.
func (cfg *Config) refuses(subject *engine.Client, debits []engine.Debit) bool {
	inst := cfg.Use()
	if inst == nil {
		return false
	}
	if subject != nil {
		if record := inst.Engine.CachedRecord(engine.Client{Key: subject.Key}); record != nil &&
			record.Banned(inst.Engine.Now()) {
			return true
		}
	}
	return inst.Engine.Refuses(debits)
}
