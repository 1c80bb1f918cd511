package tally

import (
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// refusal says why a request may not pass.
type refusal struct {
	app    *shared
	policy *policy
	retry  time.Duration // how long to wait, or limiter.Never
	reason engine.Reason
	fresh  bool      // the client has become blocked by this request
	field  [1]string // the value of Retry-After

	cost, left int64 // units that it costs, and that were left; 0 if nothing was counted

	key       []byte   // what was counted by, or of a ban the client; nil if nothing was counted
	room      [40]byte // of the key, unless it is longer
	reference string   // once it is made: see refusal.id

	method, path string // of the request as it was sent; "" of what nobody is told

	exchange *exchange // of what is answered with a challenge
}

// banName is what a ban is called in the place of a zone and of a limit.
const banName = "ban"

// fill sets what is said of a decision that refuses a request. It keeps nothing of the
// evaluation, which is reused.
func (r *refusal) fill(e *evaluation, d *engine.Decision) {
	h := e.handler
	r.app, r.policy, r.reason, r.fresh = h.app, h.banned, d.Reason, d.Fresh
	switch {
	case d.Reason != engine.Banned:
		r.policy = e.policies[d.Debit]
		debit := &e.debits[d.Debit]
		r.key = append(r.room[:0], debit.Key...)
		r.cost, r.left = debit.Cost, debit.Quota.Remaining
	case e.subject != nil:
		r.key = append(r.room[:0], e.subject.Key...)
	}
	r.retry = h.spread(d.Retry, &r.policy.Limit.Limit)
}

// neverPasses reports whether the cost is above the limit in full, so that no client may ever
// make the request. It is false where a reputation or an outage has made the limit smaller.
func (r *refusal) neverPasses() bool { return r.cost > 0 && r.cost > r.policy.Capacity() }

// status returns the status of the answer. Many libraries repeat what was answered with 413 or
// 429, also without Retry-After, so a request that can never pass gets neither.
func (r *refusal) status() int {
	if r.neverPasses() {
		return http.StatusForbidden
	}
	return http.StatusTooManyRequests
}

// err returns the error that the request is handed to the error routes with.
func (r *refusal) err() error {
	if r.neverPasses() {
		return errTooCostly
	}
	return errRefused
}

// makeField makes the value of Retry-After. It is empty for what never passes.
func (r *refusal) makeField(texts *texts) {
	if r.retry != limiter.Never {
		var room [20]byte
		r.field[0] = texts.of(strconv.AppendInt(room[:0], httpfield.Seconds(r.retry), 10))
	}
}

// spread returns a retry time made longer by a random part, so that not all who are told to wait
// for the same units come back at once: of up to the handler's jitter, or of some whole seconds in
// which these units stay free, whichever is longer.
func (h *enforcer) spread(retry time.Duration, l *limiter.Limit) time.Duration {
	if retry == limiter.Never {
		return limiter.Never
	}
	retry = max(retry, 1)
	if seconds := spreadOf(retry, l); seconds > 0 || h.jitter > 0 {
		part := h.random()
		jitter := time.Duration(min(part*h.jitter*float64(retry), float64(maxJitter)))
		retry += max(jitter, time.Duration(part*float64(seconds+1))*time.Second)
	}
	return retry
}

// maxJitter bounds what jitter adds, so that it stays a duration.
const maxJitter = limiter.MaxWindow

// maxSpread bounds what is added where no jitter is configured.
const maxSpread = time.Minute

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
	return max(int64(min(step-time.Second, retry/10, maxSpread)/time.Second), 0)
}
