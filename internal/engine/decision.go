package engine // decision

import (
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Rate is the arithmetic of a limit.
type Rate = limiter.Limit

// Limit is a rate with the name of its counts in the store. The engine keeps the pointer and never
// changes the limit behind it; neither may the caller. The ID 0 is reserved for the engine.
type Limit struct {
	ID storage.LimitID
	Rate
	// LongestRetention is the longest retention of all limits with this ID. Nil means that of this
	// limit. Names of keys depend on it, so limits that count together need the same.
	LongestRetention *time.Duration
}

// Raise returns a copy of the limit with a raised rate, see [limiter.Limit.Raise].
func (l *Limit) Raise(percent int) *Limit {
	raised := *l
	raised.Rate = l.Rate.Raise(percent)
	return &raised
}

// Retention returns how long a claim's effects on the state may matter.
func (l *Limit) Retention() time.Duration {
	if l.LongestRetention != nil {
		return *l.LongestRetention
	}
	return l.Rate.Retention()
}

// Debit is the units that one request takes from one limit.
type Debit struct {
	// Limit is the limit, with the amount in force for this client.
	Limit *Limit
	// Raise says how an operator's raise has changed Limit and Scaling, until RaisedUntil: in nanoseconds
	// since the Unix epoch, or 0 for no end. Nil means that they aren't raised.
	Raise       *Raise
	RaisedUntil int64
	// Key is the full text of the key. The engine copies it if it keeps it.
	Key []byte
	// Cost is how many units are taken, 0 or more.
	Cost int64
	// Waits reports that the request waits if the limit refuses it, so that a refusal is no
	// violation.
	Waits bool
	// Client is the client whose record scales the limit and counts violations.
	// Nil means none. Several debits may have one client.
	Client *Client
	// Scaling says how the client's record scales the limit, if there is a client. Limit must then
	// be the first of its levels. Decide replaces it with the limit of the client's level.
	Scaling *Scaling
	// Counting selects the requests that use up the cost. If two debits of one key and limit differ
	// in it, every request does.
	Counting Counting

	// Foreign is the usage of the key that the store does not count. The limit is lowered by it.
	// Nil means none.
	Foreign Foreign

	// Penalty says for how long the key stays refused once the limit refuses it. Nil means until the cost is free.
	Penalty *Penalty

	// Known reports whether Quota was set by [Engine.Decide].
	Known bool
	// Quota is the quota left for the key after the decision. For a debit that refuses the request,
	// its Reset is the time after which the cost is free again, or [limiter.Never].
	Quota limiter.Quota
	// Reduced is the capacity behind Quota if memory allowed the request without the store. 0 means
	// the capacity of Limit.
	Reduced int64
	// Pending is set by [Engine.Decide] if it allowed the request and only later learns whether the
	// request counts. It is nil if there is no cost.
	Pending *Pending

	cell    cell
	record  cell   // of the key, if there is a penalty
	whole   *Limit // Limit before it was lowered; nil if it was not
	refused bool   // the debit refuses the request
	at      int64  // the time of the decision, for the simulation
}

// Raise is what a raise has changed.
type Raise struct {
	Percent int
	Limit   *Limit   // without it; regions agree on this one
	Scaling *Scaling // without it; or nil
}

// endRaise ends a raise in time, however long the request has waited.
func (d *Debit) endRaise(now int64) {
	if d.Raise == nil || d.RaisedUntil == 0 || now < d.RaisedUntil {
		return
	}
	d.Limit, d.whole = d.Raise.Limit, nil
	if d.Scaling != nil {
		d.Scaling = d.Raise.Scaling
	}
	d.Raise = nil
}

// Reason says why a request was refused.
type Reason uint8

// The reasons. The zero value is the reason of an allowed request.
const (
	// None is the reason of an allowed request.
	None Reason = iota
	// OverLimit says that a limit had too few units left.
	OverLimit
	// Blocked says that a limit had too few units left before, and memory knew that this was still
	// so.
	Blocked
	// TooCostly says that the cost is above a limit's capacity: no waiting
	// helps.
	TooCostly
	// Abandoned says that the request's context ended while it waited.
	Abandoned
	// Banned says that the client is banned, regardless of its limits.
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
	// Fresh reports that this request blocked a key, or is the first one refused by a ban. Of
	// several requests refused at the same time, one reports the block.
	Fresh bool
	// Debit is the index of the refusing debit; of several, the one that refuses longest. It has no
	// meaning if the client is banned.
	Debit int
	// Waited is how long the decision waited for the store.
	Waited time.Duration
	// Retry is how long to wait until all debits are covered, if no other request takes units from
	// them, or [limiter.Never]. It is 0 if the request is allowed.
	Retry time.Duration
}
