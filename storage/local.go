package storage

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Local is a store for the processes of one machine. While one process has it to itself, it grants
// claims at once: without a transaction, and without looking anything up. The process must then know
// all units in use of the key.
// A charge made at once is as durable as one made by [Store.Claim].
//
// # Periods
//
// A period is a time in which a single Store, opened by a single process, is charged. Other
// processes, and other Stores of this process, may end it at any moment without asking. Claims at
// once then fail, and [Store.Claim] goes on. Since all charges in a period go through one Store, a
// caller that knows the usage of a key, and sees all claims of it, keeps knowing it. A process never
// uses the number of a period again, not even for another Store.
//
// # Invariant
//
// A claim granted at once is charged within its period: the caller knows all earlier charges of
// others, and later callers find this one.
type Local interface {
	Store

	// Period returns the number of the present period, or 0 if there is none. It costs at most an
	// atomic load.
	Period() uint32

	// IsNew reports whether nothing has been charged to a key in an era. It returns false if the
	// store can't tell without waiting. Nobody may claim for the key meanwhile.
	IsNew(id LimitID, era int64, key Key) bool

	// ClaimAtOnce answers claims of different keys within a period and an era, as of their own time. It
	// sets Done of those that it has granted. Nothing has changed for the others: the caller uses
	// [Store.Claim], which may grant more. An error that wraps [ErrUnknownOutcome] leaves open which
	// claims took effect; none is done then, as after [ErrNotAtOnce], when none did.
	ClaimAtOnce(period uint32, era int64, claims []KnownClaim) error

	// OnDisk reports whether ClaimAtOnce waits for a disk, which may hang. Then nobody may call it who
	// holds a lock that a request waits for.
	OnDisk() bool

	// Mark notes a mark of the key that names are made with, so that processes with different keys
	// don't count apart. A mark that is one of those given stays. Otherwise the first of them, which
	// isn't 0, replaces it, unless a process is present now. Without marks it stays. Mark returns the
	// mark before, 0 if there was none, and the mark in force. [Store.Join] fails for a process whose
	// mark was replaced.
	Mark(ctx context.Context, now int64, marks ...int64) (former, kept int64, err error)
}

// KnownClaim is a claim of a process that knows the key.
type KnownClaim struct {
	// Claim gives back Known or nothing, charges nothing beside its grant, and has no former name.
	Claim
	// Known counts at least the units in use of the key, for as long as they count.
	Known limiter.Lease
	// Grant is the answer, if Done is set.
	Grant limiter.Grant
	Done  bool
}

// Answer answers the claim, unless the known usage leaves no room for it. Then it returns false.
func (c *KnownClaim) Answer() (changes limiter.Changes, ok bool) {
	c.Grant, changes = c.Limit.ClaimKnown(c.Known, c.Claim.Claim)
	c.Done = !c.Grant.Refused(c.Claim.Claim)
	return changes, c.Done
}

// ErrNotAtOnce says that a claim can't be granted at once.
var ErrNotAtOnce = errors.New("the claim can't be granted at once")

var periods atomic.Uint32

// NextPeriod returns the number of a period that no other has in this process.
func NextPeriod() uint32 {
	for {
		if n := periods.Add(1); n != 0 {
			return n
		}
	}
}
