package engine

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Limit is a limit with the name under which its counts are kept. The engine
// holds on to the pointer it is given and never changes what it points to;
// neither may the caller. An ID of 0 is the engine's own.
type Limit struct {
	ID storage.LimitID
	limiter.Limit
	// LongestRetention is the longest retention of all limits that have the ID. Nil means
	// that of this limit. Names of keys depend on it, so limits that count together need
	// the same.
	LongestRetention *time.Duration
}

// Retention returns how long after a claim what it left may still matter.
func (l *Limit) Retention() time.Duration {
	if l.LongestRetention != nil {
		return *l.LongestRetention
	}
	return l.Limit.Retention()
}

// Debit is what one request takes from one limit.
type Debit struct {
	// Limit is the limit, with the amount in force for this client.
	Limit *Limit
	// Key is the full text of what the limit counts by. The engine copies it if
	// it keeps it.
	Key []byte
	// Cost is how many units are taken, 0 or more.
	Cost int64
	// Waits says that the request waits if the limit refuses it, so that this is no violation.
	Waits bool
	// Client is the client whose record scales the limit and counts violations.
	// Nil means none. Several debits may have one client.
	Client *Client
	// Scaling says how, if there is a client. Limit must then be the first of its
	// levels, and is set to the one that holds.
	Scaling *Scaling
	// Counting says which requests use up the cost. Of two debits of one key and limit that
	// differ in it, every request does.
	Counting Counting

	// Elsewhere tells what is used of the key where the store does not count it, and lowers the
	// limit by that. Nil means nothing.
	Elsewhere Elsewhere

	// Known reports whether Quota was set by [Engine.Decide].
	Known bool
	// Quota is what is left for the key after the decision. For a debit that
	// refuses the request, its Reset is the time after which the cost is free
	// again, or [limiter.Never].
	Quota limiter.Quota
	// Reduced is the capacity that Quota is of where memory allowed the request
	// without the store; 0 where that is the one of Limit.
	Reduced int64
	// Pending is set by [Engine.Decide] if it has allowed the request and it is known only later
	// whether that counts. It is nil if there is no cost.
	Pending *Pending

	cell    *cell
	whole   *Limit // what Limit was before it was lowered; nil if it was not
	refused bool   // the debit is one of those that refuse the request
	at      int64  // the time as of which it was taken, for the simulation
}

// Reason says why a request was refused.
type Reason uint8

// The reasons. The zero value is the one of an allowed request.
const (
	// None is the reason of a request that was allowed.
	None Reason = iota
	// OverLimit says that a limit had too few units left.
	OverLimit
	// Blocked says that a limit had too few units left before, and memory knew
	// that it still does.
	Blocked
	// TooCostly says that the cost is above a limit's capacity: no waiting
	// helps.
	TooCostly
	// Abandoned says that the request's context ended while it waited.
	Abandoned
	// Banned says that the client is banned, whatever its limits are.
	Banned
)

// Decision is the answer to a request. A refusal is a decision, not an error.
type Decision struct {
	// Allowed reports whether the request may pass.
	Allowed bool
	// Degraded reports that the store could not be used and memory decided.
	Degraded bool
	// Reason says why the request may not pass.
	Reason Reason
	// Fresh reports that a key has become blocked by this request, which is so for
	// one of the requests that are refused at once; or of a ban, that this is the
	// first request that it refuses.
	Fresh bool
	// Debit is the index of the debit that refuses; of several, the one that
	// refuses longest. It says nothing if the client is banned.
	Debit int
	// Waited is how long the decision waited for the store.
	Waited time.Duration
	// Retry is how long to wait until all debits can be had if no other request takes
	// from them, or [limiter.Never]. It is 0 if the request is allowed.
	Retry time.Duration
}
