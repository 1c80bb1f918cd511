package enforce

import (
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// Refusal says why a request may not pass.
type Refusal struct {
	App    *Config
	Policy *Policy
	Retry  time.Duration // how long to wait, or limiter.Never
	Reason engine.Reason
	Fresh  bool      // the client has become blocked by this request
	field  [1]string // the value of Retry-After

	Cost, left int64 // units that it costs, and that were left; 0 if nothing was counted

	Key       []byte   // what was counted by, or of a ban the client; nil if nothing was counted
	room      [40]byte // of the key, unless it is longer
	Reference string   // once it is made: see refusal.id

	method, path string // of the request as it was sent; "" of what nobody is told

	exchange *Exchange // of what is answered with a challenge
}

// BanName is what a ban is called in the place of a zone and of a limit.
const BanName = "ban"

// fill sets what is said of a decision that refuses a request. It keeps nothing of the
// evaluation, which is reused.
func (r *Refusal) fill(e *Evaluation, d *engine.Decision) {
	h := e.Handler
	r.App, r.Policy, r.Reason, r.Fresh = h.App, h.Banned, d.Reason, d.Fresh
	switch {
	case d.Reason != engine.Banned:
		r.Policy = e.Policies[d.Debit]
		debit := &e.Debits[d.Debit]
		r.Key = append(r.room[:0], debit.Key...)
		r.Cost, r.left = debit.Cost, debit.Quota.Remaining
	case e.Subject != nil:
		r.Key = append(r.room[:0], e.Subject.Key...)
	}
	r.Retry = h.Spread(d.Retry, &r.Policy.Limit.Limit)
}

// NeverPasses reports whether the cost is above the limit in full, so that no client may ever
// make the request. It is false where a reputation or an outage has made the limit smaller.
func (r *Refusal) NeverPasses() bool { return r.Cost > 0 && r.Cost > r.Policy.Capacity() }

// Status returns the status of the answer. Many libraries repeat what was answered with 413 or
// 429, also without Retry-After, so a request that can never pass gets neither.
func (r *Refusal) Status() int {
	if r.NeverPasses() {
		return http.StatusForbidden
	}
	return http.StatusTooManyRequests
}

// Err returns the error that the request is handed to the error routes with.
func (r *Refusal) err() error {
	if r.NeverPasses() {
		return errTooCostly
	}
	return ErrRefused
}

// makeField makes the value of Retry-After. It is empty for what never passes.
func (r *Refusal) makeField(texts *Texts) {
	if r.Retry != limiter.Never {
		var room [20]byte
		r.field[0] = texts.Of(strconv.AppendInt(room[:0], httpfield.Seconds(r.Retry), 10))
	}
}

// Spread returns a retry time made longer by a random part, so that not all who are told to wait
// for the same units come back at once: of up to the handler's jitter, or of some whole seconds in
// which these units stay free, whichever is longer.
func (h *Handler) Spread(retry time.Duration, l *limiter.Limit) time.Duration {
	if retry == limiter.Never {
		return limiter.Never
	}
	retry = max(retry, 1)
	if seconds := spreadOf(retry, l); seconds > 0 || h.Jitter > 0 {
		part := h.Random()
		jitter := time.Duration(min(part*h.Jitter*float64(retry), float64(MaxJitter)))
		retry += max(jitter, time.Duration(part*float64(seconds+1))*time.Second)
	}
	return retry
}

// MaxJitter bounds what jitter adds, so that it stays a duration.
const MaxJitter = limiter.MaxWindow

// MaxSpread bounds what is added where no jitter is configured.
const MaxSpread = time.Minute

// spreadOf returns by how many seconds at most a wait for units of a limit is made longer: less
// than a slot of the limit, or than a token bucket takes to refill a unit, and at most a tenth of
// the wait. It is 0 for what isn't a limit.
func spreadOf(retry time.Duration, l *limiter.Limit) int64 {
	step := l.Window()
	switch {
	case l.Algorithm() == limiter.TokenBucket:
		step = l.Refill(1)
	case l.Slots() > 1:
		step /= time.Duration(l.Slots())
	}
	return max(int64(min(step-time.Second, retry/10, MaxSpread)/time.Second), 0)
}
