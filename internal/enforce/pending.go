package enforce

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

// pending holds the request's debits from limits that count by the status of its answer, or by what
// it has used when it ends. They are charged, held or only examined until then. pending settles once:
// when the status is written, when the handlers return without writing one, or when they panic.
type pending struct {
	out    answerWriter // unless the response has one
	app    *Config
	answer correctable // tells the units left; may be nil
	body   watchedBody // of the request
	repl   *caddy.Replacer

	head     bool     // the method is HEAD
	byStatus bool     // a zone of the handler counts by status
	before   statuses // before later handlers ran

	began   time.Time
	written atomic.Int64           // bytes of the answer's body
	said    map[*SettleRule]string // guarded by mu: what the answer's header said of the use

	mu     sync.Mutex
	status settledBy                // guarded by mu
	used   func(pendingDebit) int64 // guarded by mu: settles debits of zones with a rule; nil until the request ends
	debits []pendingDebit           // guarded by mu
	room   [2]pendingDebit          // initial storage of debits
}

// correctable is an answer whose remaining units can be corrected.
type correctable interface {
	correct(of *Policy, left limiter.Quota)
}

type pendingDebit struct {
	policy *Policy
	leads  bool // it is the first of its zone
	*engine.Pending
}

func newPending(h *Handler) *pending {
	p := &pending{app: h.App, byStatus: slices.ContainsFunc(h.Zones, func(z *Zone) bool { return z.Count != nil })}
	p.debits = p.room[:0]
	return p
}

// add adds a debit. The status may already be known when a shadow limit decides late.
func (p *pending) add(of *Policy, open *engine.Pending) {
	p.mu.Lock()
	d := pendingDebit{of, !slices.ContainsFunc(p.debits, func(d pendingDebit) bool { return d.policy.Zone == of.Zone }), open}
	p.debits = append(p.debits, d)
	by, used := p.status, p.used
	p.mu.Unlock()
	if by.status != 0 {
		p.settleDebit(d, by)
	}
	if used != nil {
		p.finishDebit(d, used)
	}
}

// addAll adds the debits that await the status.
func (p *pending) addAll(policies []*Policy, debits []engine.Debit) {
	for i := range debits {
		if open := debits[i].Pending; open != nil {
			p.add(policies[i], open)
		}
	}
}

// serve calls the next handler and settles. A nil pending settles nothing.
func (p *pending) serve(w *answerWriter, r *http.Request, next caddyhttp.Handler) error {
	if p == nil {
		return next.ServeHTTP(w, r)
	}
	p.body.watch(r)
	p.repl = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	p.began, p.head = time.Now(), r.Method == http.MethodHead
	if p.byStatus {
		p.before = statusesIn(p.repl)
	}
	defer p.end(w, r, http.StatusInternalServerError) // if it panics
	err := next.ServeHTTP(w, r)
	p.body.noteError(err)
	p.end(w, r, StatusOf(err))
	return err
}

// end settles when the handlers end: with the written status, or with status if none was written.
func (p *pending) end(w http.ResponseWriter, r *http.Request, status int) {
	if r.Context().Err() != nil {
		p.leave(status)
	}
	p.Settle(status, w.Header())
	p.Finish(p.usage())
}

// Settle settles with the status and the header of the answer. Only the first call counts. A nil
// pending settles nothing.
func (p *pending) Settle(status int, header http.Header) {
	p.settleBy(settledBy{status: max(status, 1), header: header}) // a log may lack the status
}

// leave settles the debits of a client that left before an answer.
func (p *pending) leave(status int) { p.settleBy(settledBy{status: status, left: true}) }

func (p *pending) settleBy(by settledBy) {
	if p == nil || p.isSettled() {
		return
	}
	by.left = by.left || p.body.broken.Load()
	if p.byStatus && p.repl != nil {
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

// settleDebit settles a debit by its status, and reports whether it counts. Debits of zones with a
// rule are settled when the request ends.
func (p *pending) settleDebit(d pendingDebit, by settledBy) bool {
	if d.policy.Zone.Settle != nil {
		return false
	}
	counted := by.counts(d.policy.Zone.Count)
	d.Settle(counted)
	units := int64(0)
	if counted {
		units = d.Cost()
	}
	p.report(d, units)
	return counted
}

// report counts a settled debit that has used some units.
func (p *pending) report(d pendingDebit, units int64) {
	z := d.policy.Zone
	if d.leads {
		z.Meter.Settle(units > 0)
	}
	if units > 0 && p.app.Ledger != nil {
		key := p.app.Ledger.Key(d.Key())
		if d.leads {
			z.Past.Spend(key, units)
		}
		d.policy.past.Spend(key, units)
	}
}

// Pending returns the request's pending debits, or nil if there are none. Settling them corrects
// the remaining units in the response.
func (v *Verdict) Pending(in *Response) *pending {
	v.await(v.Policies, v.Debits)
	v.await(v.Shadows.Policies, v.Shadows.Debits)
	if v.open != nil && in != nil {
		v.open.answer = in
	}
	return v.open
}

func (v *Verdict) await(policies []*Policy, debits []engine.Debit) {
	for i := range debits {
		if open := debits[i].Pending; open != nil {
			v.opened().add(policies[i], open)
		}
	}
}

// opened returns the pending debits. It creates an empty pending if there is none.
func (v *Verdict) opened() *pending {
	if v.open == nil {
		v.open = newPending(v.Handler)
	}
	return v.open
}

// unitsOf returns how many units a debit is known to use up.
func unitsOf(d *engine.Debit) int64 {
	if d.Counting != engine.Always {
		return 0
	}
	return d.Cost
}
