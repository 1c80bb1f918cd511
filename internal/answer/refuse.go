package answer

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/internal/readahead"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// ErrAbandoned is the result of a request whose client has gone.
var ErrAbandoned error = caddyhttp.HandlerError{StatusCode: 499}

// ErrNoRoom refuses a request whose body the pool has taken away. It isn't passed on
// instead, or attempts could avoid being counted.
var ErrNoRoom error = caddyhttp.HandlerError{StatusCode: http.StatusServiceUnavailable, Err: readahead.ErrLost}

// Options are how a handler answers.
type Options struct {
	Style  Style
	Page   *Pages
	Routed bool // a surrounding handler handles errors
	GRPC   bool // a later handler may answer calls of gRPC
}

// Refuse answers a request that is over a limit.
func (o *Options) Refuse(w http.ResponseWriter, r *http.Request, p *Response) error {
	p.SetRefusal(w)
	LeaveBody(w, r)
	switch {
	case httpfield.PrefersProblem(r.Header):
		problem := httpfield.QuotaExceeded(p.Refusal.Name)
		problem.Status = p.Refusal.status()
		if id := p.Refusal.Of.ID(); id != "" {
			problem.Instance = reference.URN + id
		}
		return problem.Write(Own(w), r)
	case o.Routed || answersErrors(r, p.Refusal.err()):
		return p.Refusal.err()
	case o.Page.Suits(r):
		return o.Page.Refuse(w, r, p.Refusal.shown())
	}
	return o.say(w, r, p.Refusal.short(), &p.Refusal.values)
}

// status returns the status of the answer. Many libraries retry after 413 or 429, even without
// Retry-After, so a request that can never pass gets neither (decision 8).
func (r *Refusal) status() int { return StatusOf(r.NeverPasses) }

// StatusOf returns the status of a refusal.
func StatusOf(neverPasses bool) int {
	if neverPasses {
		return http.StatusForbidden
	}
	return http.StatusTooManyRequests
}

// err returns the error for the error routes.
func (r *Refusal) err() error {
	if r.NeverPasses {
		return errTooCostly
	}
	return errRefused
}

// short returns the answer to clients that get no page.
func (r *Refusal) short() *Short {
	switch {
	case r.NeverPasses:
		return tooCostly
	case r.Banned:
		return ofBan
	}
	return overLimit
}

// makeField makes the value of Retry-After. It is empty for a request that never passes.
func (r *Refusal) makeField(texts *Texts) {
	if r.Retry != limiter.Never {
		var room [20]byte
		r.field[0] = texts.text(strconv.AppendInt(room[:0], httpfield.Seconds(r.Retry), 10))
	}
}

// SetRefusal sets the header fields of a refusal.
func (r *Response) SetRefusal(w http.ResponseWriter) {
	h := w.Header()
	r.setFields(h)
	r.Refusal.noStore[0] = httpfield.NoStore
	h[httpfield.CacheControl] = r.Refusal.noStore[:]
	ForOneClient(w)
	if r.Refusal.Retry != limiter.Never {
		h[httpfield.RetryAfter] = r.Refusal.field[:]
	}
}

// Denial is the reason for denying a request without counting it.
type Denial struct {
	Status int
	Text   string
	err    error // for error routes; caddyhttp.Error would inspect the stack
	short  *Short
}

// NewDenial returns a denial with a status.
func NewDenial(status int, text string) *Denial {
	short := newShort(httpfield.Problem{Title: http.StatusText(status), Status: status, Detail: text})
	return &Denial{status, text, caddyhttp.HandlerError{StatusCode: status, Err: errors.New(text)}, short}
}

// Deny answers a request that is rejected without counting, or hands it to the error routes.
func (o *Options) Deny(w http.ResponseWriter, r *http.Request, why *Denial) error {
	if handsOver(w, r, why.err, o.Routed && !httpfield.PrefersProblem(r.Header)) {
		return why.err
	}
	return o.say(w, r, why.short, new([3]string))
}

// Fail answers an undecided request, or hands it to the error routes.
func (o *Options) Fail(w http.ResponseWriter, r *http.Request, err error) error {
	if err == ErrNoRoom { // Caddy would write a line about each
		w.Header()[httpfield.RetryAfter] = []string{"1"}
		ForOneClient(w)
		LeaveBody(w, r)
		return o.say(w, r, noRoom, new([3]string))
	}
	return o.Reject(w, r, err)
}

// Reject answers a request that failed with an error that tells its status, or hands it to the error
// routes. Errors of the server are Caddy's to log and to answer, except in error routes, and so are
// those of a request that a surrounding handler routes.
func (o *Options) Reject(w http.ResponseWriter, r *http.Request, err error) error {
	failed, ok := errors.AsType[caddyhttp.HandlerError](err)
	routed := o.Routed || !ok || err == ErrAbandoned || failed.StatusCode >= 500 && !routing.InErrorRoute(r)
	if handsOver(w, r, err, routed) {
		return err
	}
	return o.say(w, r, ofStatus(failed.StatusCode), new([3]string))
}

// handsOver prepares the answer to a request that may not pass, and reports whether error routes write
// it.
func handsOver(w http.ResponseWriter, r *http.Request, err error, routed bool) bool {
	ForOneClient(w)
	LeaveBody(w, r)
	if !routed && (httpfield.PrefersProblem(r.Header) || !answersErrors(r, err)) {
		return false
	}
	caddyhttp.SetVar(r.Context(), oursVar, true)
	return true
}

// AskAgain makes a browser repeat a request once the handshake is complete (RFC 8470, section 5.2).
// It bypasses the error routes, whose answers are for people.
func (o *Options) AskAgain(w http.ResponseWriter, r *http.Request) error {
	ForOneClient(w)
	return o.say(w, r, askAgain, new([3]string))
}

// overQuota returns the answer to a request that is over some limit: the header names it.
func overQuota(status int) *Short {
	p := httpfield.QuotaExceeded("")
	p.Status, p.Violated = status, nil
	return newShort(p)
}

// The answers made once.
var (
	askAgain  = ofStatus(http.StatusTooEarly)
	noRoom    = ofStatus(http.StatusServiceUnavailable)
	overLimit = overQuota(http.StatusTooManyRequests)
	// gRPC's status for a limit that is used up would ask for a retry
	ofBan     = overLimit.withGRPC(http.StatusForbidden)
	tooCostly = overQuota(http.StatusForbidden)
)

// keptBody is the length up to which the body of a refused request is read, so that its connection
// can be reused: the most that net/http reads.
const keptBody = 256 << 10

// LeaveBody makes the server answer at once although the request's body may be long. Caddy wraps
// the body, and net/http then waits for its beginning before it sends an answer, unless the answer
// closes the connection.
func LeaveBody(w http.ResponseWriter, r *http.Request) {
	long := r.ContentLength < 0 || r.ContentLength > keptBody
	expected := r.ContentLength > 0 && len(r.Header["Expect"]) > 0
	if r.ProtoMajor == 1 && (long || expected) {
		w.Header().Set("Connection", "close")
	}
}

// Errors for the error routes. They are made once, because caddyhttp.Error would inspect the stack
// each time.
var (
	errRefused   error = caddyhttp.HandlerError{StatusCode: http.StatusTooManyRequests}
	errTooCostly error = caddyhttp.HandlerError{StatusCode: http.StatusForbidden}
)

// answersErrors reports whether an error route might answer err.
func answersErrors(r *http.Request, err error) bool {
	return routing.AnswersErrors(r, err, isErrorFields)
}

// ErrorRouted reports whether a handler that is being provisioned lies where a refusal must be an
// error: in a subroute that handles errors, or in the intercept handler, which fills an answer
// without a body with the intercepted one.
func ErrorRouted(ctx caddy.Context) bool {
	return slices.ContainsFunc(ctx.Modules(), func(m caddy.Module) bool {
		switch m := m.(type) {
		case *caddyhttp.Subroute:
			KeepFields(m.Routes, m.Errors)
			return m.Errors != nil
		case *intercept.Intercept:
			return true
		}
		return false
	})
}

// ShowsPage reports whether a request that must come again is answered with the page that does so:
// a browser's for a page, unless error routes answer refusals.
func (o *Options) ShowsPage(r *http.Request) bool {
	return !o.Routed && r.Method == http.MethodGet && o.Page.Suits(r) && !answersErrors(r, errRefused)
}

var stopping = NewDenial(http.StatusServiceUnavailable, "the server is stopping; try again in a moment")

// Postpone answers a request that waited in vain: it may come again in a second. The status isn't
// that of a refusal, which may have consequences elsewhere.
func (o *Options) Postpone(w http.ResponseWriter, r *http.Request, waiting int64) error {
	w.Header().Set(httpfield.RetryAfter, "1")
	if !o.ShowsPage(r) {
		return o.Deny(w, r, stopping)
	}
	w = Own(w)
	html := HTML{Policy: page.RefusedPolicy, Language: LanguageOf(r)}
	html.Body = o.Page.Refused.AppendLine(make([]byte, 0, pageRoom), html.Language, waiting)
	w.Header().Set("Refresh", "1")
	return html.Write(w, r, http.StatusServiceUnavailable)
}
