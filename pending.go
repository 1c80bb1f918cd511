package tally

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// pending is what a request has taken from limits that count by the status of its answer, or only
// looked at, until that is known. It wraps the writer of later handlers to see the status, and
// settles once: when the status is written, when the handlers return without having written one,
// or when they panic.
type pending struct {
	caddyhttp.ResponseWriterWrapper
	app    *shared
	answer correctable // says what is left of limits; may be nil
	body   watchedBody // of the request
	repl   *caddy.Replacer
	before statuses // before later handlers ran

	mu     sync.Mutex
	status settledBy       // guarded by mu
	debits []pendingDebit  // guarded by mu
	room   [2]pendingDebit // of debits
}

// correctable is an answer in which it can be corrected what is left of a limit.
type correctable interface {
	correct(of *policy, left limiter.Quota)
}

type pendingDebit struct {
	policy *policy
	leads  bool // it is the first one of its zone
	*engine.Pending
}

func newPending(app *shared) *pending {
	p := &pending{app: app}
	p.debits = p.room[:0]
	return p
}

// add adds a debit. A shadow limit that decides later may do so when the status is known already.
func (p *pending) add(of *policy, open *engine.Pending) {
	p.mu.Lock()
	d := pendingDebit{of, !slices.ContainsFunc(p.debits, func(d pendingDebit) bool { return d.policy.zone == of.zone }), open}
	p.debits = append(p.debits, d)
	by := p.status
	p.mu.Unlock()
	if by.status != 0 {
		p.settleDebit(d, by)
	}
}

// addAll adds those debits that await the status.
func (p *pending) addAll(policies []*policy, debits []engine.Debit) {
	for i := range debits {
		if open := debits[i].Pending; open != nil {
			p.add(policies[i], open)
		}
	}
}

// serve calls the next handler, and settles. Nil settles nothing.
func (p *pending) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if p == nil {
		return next.ServeHTTP(w, r)
	}
	p.ResponseWriter = w
	p.body.watch(r)
	p.repl = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	p.before = statusesIn(p.repl)
	defer p.end(r, http.StatusInternalServerError) // if it panics
	err := next.ServeHTTP(p, r)
	p.body.noteError(err)
	p.end(r, statusOf(err))
	return err
}

// end settles with the status that is written, if none was, when the handlers end.
func (p *pending) end(r *http.Request, status int) {
	if r.Context().Err() != nil {
		p.leave(status)
	}
	p.settle(status)
}

// settle settles with the status of the answer. Only the first call counts. Nil settles nothing.
func (p *pending) settle(status int) { p.settleBy(settledBy{status: max(status, 1)}) } // a log may not have it

// leave settles where the client has left before there was an answer.
func (p *pending) leave(status int) { p.settleBy(settledBy{status: status, left: true}) }

func (p *pending) settleBy(by settledBy) {
	if p == nil || p.isSettled() {
		return
	}
	by.left = by.left || p.body.broken.Load()
	if p.repl != nil {
		by.replaced = statusesIn(p.repl).since(p.before)
	}
	p.mu.Lock()
	if p.status.status != 0 {
		p.mu.Unlock()
		return
	}
	p.status = by
	debits := p.debits
	p.mu.Unlock()
	for _, d := range debits {
		if p.settleDebit(d, by) && p.answer != nil {
			p.answer.correct(d.policy, d.Counted)
		}
	}
}

func (p *pending) isSettled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.status != 0
}

// settleDebit settles a debit, and reports whether it counts.
func (p *pending) settleDebit(d pendingDebit, by settledBy) bool {
	z := d.policy.zone
	counted := by.counts(z.Count)
	d.Settle(counted)
	if d.leads {
		z.meter.Settle(counted)
	}
	if counted && p.app.ledger != nil {
		key := p.app.ledger.Key(d.Key())
		if d.leads {
			z.past.Spend(key, d.Cost())
		}
		d.policy.past.Spend(key, d.Cost())
	}
	return counted
}

// WriteHeader implements http.ResponseWriter.
func (p *pending) WriteHeader(status int) {
	if isFinal(status) {
		p.settle(status)
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *pending) Write(data []byte) (int, error) {
	p.settle(http.StatusOK)
	return p.ResponseWriter.Write(data)
}

// ReadFrom implements io.ReaderFrom.
func (p *pending) ReadFrom(r io.Reader) (int64, error) {
	p.settle(http.StatusOK)
	return p.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError is what http.ResponseController flushes with.
func (p *pending) FlushError() error {
	p.settle(http.StatusOK)
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. Whoever takes over the connection switches protocols.
func (p *pending) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(p.ResponseWriter).Hijack()
	if err == nil {
		p.settle(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

// isFinal reports whether a status is that of an answer, and not of one that comes before it.
func isFinal(status int) bool { return status >= 200 || status == http.StatusSwitchingProtocols }
