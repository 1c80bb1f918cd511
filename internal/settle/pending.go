package settle

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Terms are how the units of a zone's requests are settled.
type Terms struct {
	Count   *Count // which answers count; nil for all
	Settle  *Rule  // measures the units that a request has used; nil for its cost
	MaxCost int64  // 0 if there is none
}

// Limit is a limit with pending debits.
type Limit interface {
	// SettleTerms returns the terms, which all limits of a zone share.
	SettleTerms() *Terms
}

// Book is where settled units are noted.
type Book interface {
	// Spent notes that a request is settled, and how many units of a limit it has used. leads reports
	// whether the limit is the first of its zone.
	Spent(limit Limit, leads bool, key []byte, units int64)
	// Silent notes that an answer lacked what it should say of the use.
	Silent(rule *Rule)
}

// Pending holds a request's debits from limits that count by the status of its answer, or by what it has
// used when it ends. It settles once: when the status is written, when the handlers return without
// writing one, or when they panic.
type Pending struct {
	book   Book
	answer Correctable // tells the units left; may be nil
	body   watchedBody // of the request
	repl   *caddy.Replacer

	head     bool     // the method is HEAD
	byStatus bool     // a zone of the handler counts by status
	late     bool     // debits may be added while later handlers run, and after them
	before   statuses // before later handlers ran

	began   time.Time
	written atomic.Int64     // bytes of the answer's body
	said    map[*Rule]string // guarded by mu: what the answer's header said of the use
	reader  *answerReader    // of the answer's body; nil if that isn't read
	web     *webReader       // of the trailers in the answer's body; nil if it has none

	mu     sync.Mutex
	status settledBy         // guarded by mu
	used   func(debit) int64 // guarded by mu: settles debits of zones with a rule; nil until the request ends
	debits []debit           // guarded by mu
	room   [2]debit          // initial storage of debits
}

// Correctable is an answer whose remaining units can be corrected.
type Correctable interface {
	Correct(limit Limit, left limiter.Quota)
}

// debit is a debit from a limit.
type debit struct {
	limit Limit
	leads bool // it is the first of its zone
	*engine.Pending
}

func (d *debit) terms() *Terms { return d.limit.SettleTerms() }

// New returns a Pending without debits. byStatus reports whether a zone of the handler counts by status.
func New(book Book, byStatus bool) *Pending {
	p := &Pending{book: book, byStatus: byStatus}
	p.debits = p.room[:0]
	return p
}

// CorrectIn has the units left corrected in an answer when they are known.
func (p *Pending) CorrectIn(answer Correctable) { p.answer = answer }

// AwaitLate says that debits may be added while the next handler runs, and after it: header fields of the
// answer, which that handler writes, are read from copies then. A nil Pending awaits nothing.
func (p *Pending) AwaitLate() {
	if p != nil {
		p.late = true
	}
}

// Add adds a debit. The status may already be known when a shadow limit decides late, and the request may
// have ended: what its answer said of the use isn't known any more then, and the cost stays.
func (p *Pending) Add(limit Limit, open *engine.Pending) {
	p.mu.Lock()
	isOfZone := func(d debit) bool { return d.terms() == limit.SettleTerms() }
	d := debit{limit, !slices.ContainsFunc(p.debits, isOfZone), open}
	p.debits = append(p.debits, d)
	by, used := p.status, p.used
	p.mu.Unlock()
	if by.status != 0 {
		p.settleDebit(d, by)
	}
	if used != nil {
		p.finishDebit(d, by, func(d debit) int64 {
			if d.terms().Settle.From != "" {
				return d.Cost()
			}
			return used(d)
		})
	}
}

// Serve calls the next handler and settles. A nil Pending settles nothing.
func (p *Pending) Serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if p == nil {
		return next.ServeHTTP(w, r)
	}
	p.body.watch(r)
	p.repl = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	p.began, p.head = time.Now(), r.Method == http.MethodHead
	if web := p.byStatus && isWeb(r.Header); web || len(p.answerFields()) > 0 {
		r.Header.Del("Accept-Encoding") // what is compressed can't be read
		r.Header.Del("Grpc-Accept-Encoding")
	}
	if p.byStatus {
		p.before = statusesIn(p.repl)
	}
	defer p.end(w, r, http.StatusInternalServerError) // if it panics
	err := next.ServeHTTP(w, r)
	p.body.noteError(err)
	p.end(w, r, statusOf(err))
	return err
}

// end settles when the handlers end: with the written status, or with status if none was written.
func (p *Pending) end(w http.ResponseWriter, r *http.Request, status int) {
	if r.Context().Err() != nil {
		p.leave(status)
	}
	p.Settle(status, w.Header())
	if p.late || p.web != nil {
		trailers := w.Header().Clone()
		p.mu.Lock()
		p.status.header = trailers
		p.web.note(&p.status)
		p.mu.Unlock()
	}
	p.reader.publish(p.repl)
	p.Finish(p.usage())
}

// Settle settles with the status and the header of the answer. Only the first call counts. A nil
// Pending settles nothing.
func (p *Pending) Settle(status int, header http.Header) {
	p.settleBy(settledBy{status: max(status, 1), header: header}) // a log may lack the status
}

// leave settles the debits of a client that left before the end of an answer, which may have begun.
func (p *Pending) leave(status int) {
	p.settleBy(settledBy{status: status, left: true})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.left = true
}

func (p *Pending) settleBy(by settledBy) {
	if p == nil || p.isSettled() {
		return
	}
	by.left = by.left || p.body.broken.Load()
	if p.byStatus && p.repl != nil {
		by.replaced = statusesIn(p.repl).since(p.before)
	}
	if p.late {
		by.header = by.header.Clone()
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
			p.answer.Correct(d.limit, d.Counted)
		}
	}
}

func (p *Pending) isSettled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.status != 0
}

// settleDebit settles a debit by its status, and reports whether it counts. Debits of zones with a
// rule, or that count by trailers, are settled when the request ends.
func (p *Pending) settleDebit(d debit, by settledBy) bool {
	if d.terms().Settle != nil || d.terms().Count.inTrailers() {
		return false
	}
	counted := by.counts(d.terms().Count)
	d.Settle(counted)
	units := int64(0)
	if counted {
		units = d.Cost()
	}
	p.book.Spent(d.limit, d.leads, d.Key(), units)
	return counted
}
