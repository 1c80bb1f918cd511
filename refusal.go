package tally

import (
	"strconv"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// refusal says why a request may not pass.
type refusal struct {
	app    *App
	policy *policy
	retry  time.Duration // how long to wait, or limiter.Never
	reason engine.Reason
	fresh  bool      // the client has become blocked by this request
	field  [1]string // the value of Retry-After

	key       []byte   // what was counted by, or of a ban the client; nil if nothing was counted
	room      [40]byte // of the key, unless it is longer
	reference string   // once it is made: see refusal.id

	exchange *exchange // of what is answered with a challenge
}

// banName is what a ban is called in the place of a zone and of a limit.
const banName = "ban"

// fill sets what is said of a decision that refuses a request. It keeps nothing of the
// evaluation, which is reused.
func (r *refusal) fill(e *evaluation, d *engine.Decision) {
	h := e.handler
	r.app, r.policy, r.retry, r.reason, r.fresh = h.app, h.banned, h.jittered(d.Retry), d.Reason, d.Fresh
	switch {
	case d.Reason != engine.Banned:
		r.policy = e.policies[d.Debit]
		r.key = append(r.room[:0], e.debits[d.Debit].Key...)
	case e.subject != nil:
		r.key = append(r.room[:0], e.subject.Key...)
	}
}

// makeField makes the value of Retry-After. It is empty for what never passes.
func (r *refusal) makeField(texts *texts) {
	if r.retry != limiter.Never {
		var room [20]byte
		r.field[0] = texts.of(strconv.AppendInt(room[:0], httpfield.Seconds(r.retry), 10))
	}
}

// jittered returns a retry time made longer by a random part of up to the
// handler's jitter.
func (h *Handler) jittered(retry time.Duration) time.Duration {
	if retry == limiter.Never {
		return limiter.Never
	}
	retry = max(retry, 1)
	if h.Jitter > 0 {
		retry += time.Duration(min(h.random()*h.Jitter*float64(retry), float64(maxJitter)))
	}
	return retry
}

// maxJitter bounds what jitter adds, so that it stays a duration.
const maxJitter = limiter.MaxWindow
