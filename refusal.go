package tally

import (
	"time"

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
}

// banName is what a ban is called in the place of a zone and of a limit.
const banName = "ban"

// newRefusal returns what is said of a decision that refuses the request. It keeps nothing
// of the evaluation, which is reused.
func (e *evaluation) newRefusal(d engine.Decision) *refusal {
	h := e.handler
	r := &refusal{app: h.app, policy: h.banned, retry: h.jittered(d), reason: d.Reason, fresh: d.Fresh}
	switch {
	case d.Reason != engine.Banned:
		r.policy = e.policies[d.Debit]
		r.key = append(r.room[:0], e.debits[d.Debit].Key...)
	case e.subject != nil:
		r.key = append(r.room[:0], e.subject.Key...)
	}
	return r
}

// jittered returns a retry time made longer by a random part of up to the
// handler's jitter.
func (h *Handler) jittered(d engine.Decision) time.Duration {
	if d.Retry == limiter.Never {
		return limiter.Never
	}
	retry := max(d.Retry, 1)
	if h.Jitter > 0 {
		retry += time.Duration(min(h.random()*h.Jitter*float64(retry), float64(maxJitter)))
	}
	return retry
}

// maxJitter bounds what jitter adds, so that it stays a duration.
const maxJitter = limiter.MaxWindow
