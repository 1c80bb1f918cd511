package enforce

import (
	"time"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Refusal is the reason why a request may not pass.
type Refusal struct {
	Config *Config
	Policy *Policy
	Retry  time.Duration // how long to wait, or limiter.Never
	Reason engine.Reason
	Fresh  bool // this request blocked the client

	Cost, Left int64 // the request's cost and the units left; 0 if nothing was counted

	Key       []byte   // the key, or the client of a ban; nil if nothing was counted
	room      [40]byte // storage of Key, unless it is longer
	Reference string   // set on first use: see ID

	Method, Path string // of the request as sent; "" until noted
}

// BanName stands for the zone and the limit of a ban.
const BanName = "ban"

// BeforeTLS is the zone of what listeners decide about connections.
const BeforeTLS = "before_tls"

// BeforeTLSLimits names why a listener closes connections: its outcomes from [listener.Banned] on.
var BeforeTLSLimits = [...]string{BanName, "connections", "new_connections"}

// fill sets the fields from a decision that refuses a request. It keeps no reference to the
// evaluation, which is reused.
func (r *Refusal) fill(e *Evaluation, d *engine.Decision) {
	h := e.Handler
	r.Config, r.Policy, r.Reason, r.Fresh = h.Config, h.Banned, d.Reason, d.Fresh
	switch {
	case d.Reason != engine.Banned:
		r.Policy = e.Policies[d.Debit]
		debit := &e.Debits[d.Debit]
		r.Key = append(r.room[:0], debit.Key...)
		r.Cost, r.Left = debit.Cost, debit.Quota.Remaining
	case e.Subject != nil:
		r.Key = append(r.room[:0], e.Subject.Key...)
	}
	r.Retry = h.Spread(d.Retry, &r.Policy.Rate)
}

// NeverPasses reports whether the cost exceeds the full limit, so that no client may ever make the
// request. It is false if a reputation or an outage has reduced the limit.
func (r *Refusal) NeverPasses() bool { return r.Cost > 0 && r.Cost > r.Policy.Capacity() }

// Status returns the status of the answer.
func (r *Refusal) Status() int { return answer.StatusOf(r.NeverPasses()) }

// tell returns the part that answers tell.
func (r *Refusal) tell() answer.Refusal {
	return answer.Refusal{Item: &r.Policy.Item, Retry: r.Retry, NeverPasses: r.NeverPasses(),
		Banned: r.Reason == engine.Banned, Of: r}
}

// Spread returns a retry time extended by a random part, so that clients that wait for the same
// units don't all return at once. The part is at most the larger of the handler's jitter and the
// whole seconds for which these units stay free.
func (h *Handler) Spread(retry time.Duration, l *limiter.Limit) time.Duration {
	if retry == limiter.Never {
		return limiter.Never
	}
	retry = max(retry, 1)
	if seconds := spreadOf(retry, l); seconds > 0 || h.Jitter > 0 {
		part := h.Random()
		jitter := time.Duration(min(part*h.Jitter*float64(retry), float64(maxJitter)))
		retry += max(jitter, time.Duration(part*float64(seconds+1))*time.Second)
	}
	return retry
}

// maxJitter bounds the jitter, so that the sum stays a duration.
const maxJitter = limiter.MaxWindow

// maxSpread bounds the extension without configured jitter.
const maxSpread = time.Minute

// spreadOf returns by how many seconds at most a wait for units of a limit is extended: less than a
// slot of the limit, or than a token bucket takes to refill a unit, and at most a tenth of the
// wait. It is 0 without a limit.
func spreadOf(retry time.Duration, l *limiter.Limit) int64 {
	step := l.Window()
	switch {
	case l.Algorithm() == limiter.TokenBucket:
		step = l.Refill(1)
	case l.Slots() > 1:
		step /= time.Duration(l.Slots())
	}
	return max(int64(min(step-time.Second, retry/10, maxSpread)/time.Second), 0)
}
