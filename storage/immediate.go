package storage

import (
	"errors"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Immediate is a store that can answer claims at once, while nobody else charges it: the caller
// knows all that is in use then, so the store need not look it up. A claim at once waits for no
// disk, no transaction and no lock that is held for long. What it charges is as lasting as what
// [Store.Claim] charges.
//
// # Periods
//
// A period is a time in which one Store alone is charged. Other processes and other Stores of
// this one may end it at any moment, without asking; claims at once then fail, and
// [Store.Claim] goes on. In a period all charges go through one Store, so whoever has learned
// in it what is in use of a key, and hears of every claim of the key since, knows it all.
// Periods have numbers that are never used again in a process, not even by another Store.
//
// # Invariant
//
// A claim at once that is granted was charged within its period: all that others have charged
// before is known to the caller, and whoever charges later finds it.
type Immediate interface {
	Store

	// Period returns the number of the present period, or 0 if there is none. It costs no
	// more than an atomic load.
	Period() uint32

	// IsNew reports whether nothing is kept of a key, in an era. It may be false for a key
	// of which nothing is kept. Nobody may claim for the key meanwhile.
	IsNew(id LimitID, era int64, key Key) bool

	// ClaimAtOnce answers a claim within a period and an era. known must count at least what
	// is in use of the key, for as long as that counts; what the claim gives back must be
	// known itself, or nothing. It charges nothing beside what it grants, has no former name,
	// and is as of its own time.
	//
	// After ErrNotAtOnce nothing has changed; the caller uses [Store.Claim], which may grant
	// more. An error that wraps [ErrUnknownOutcome] leaves open whether the claim took effect.
	ClaimAtOnce(period uint32, era int64, claim Claim, known limiter.Lease) (limiter.Grant, error)
}

// Recaller is an Immediate that knows the usage of every key at once.
type Recaller interface {
	Immediate

	// Recall returns a lease without units that counts at least what is in use of a key of a limit
	// at a time in an era, for as long as that counts: the zero lease if nothing is kept of it. It
	// returns false if there is no such lease. Nobody may claim for the key meanwhile.
	Recall(id LimitID, era int64, key Key, l limiter.Limit, now int64) (known limiter.Lease, ok bool)
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
