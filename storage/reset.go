package storage

import (
	"context"
	"time"
)

// Reset forgets a limit's counts of a key, or the record of a client.
type Reset struct {
	// ID is chosen at random by the caller. A reset whose ID is noted already is not done
	// again, so after [ErrUnknownOutcome] it can be asked for once more.
	ID int64
	// Client reports whether the record of a client is reset: its violations, score and ban.
	// Otherwise it is the count of a key, and Limit is the limit that counts it.
	Client bool
	Limit  LimitID
	// Key names the key or the client. Former is a name that it had before, or zero; what is
	// kept under it is forgotten, too.
	Key, Former Key

	// The store sets the following fields.

	// Number is counted from 1, without gaps, in the order in which resets took effect.
	Number int64
	// At is when the reset took effect, in nanoseconds since the Unix epoch, as if the time
	// of the store had never been set: Now less Shift, see [Time]. The names are those of
	// that moment.
	At int64
	// Found reports whether there was something to forget.
	Found bool
}

// Resets are the resets after some number.
type Resets struct {
	List   []Reset // in the order of their numbers
	Newest int64   // the number of the newest reset, 0 if there was none
	// Lost reports whether the list isn't complete, because some are too old to be known, or
	// because it is another place. Anything may have been reset.
	Lost bool
}

// Resetter is a store that can forget a key or a client at an operator's wish.
//
// # Invariant
//
// What was charged before a reset is never given back to the count after it. So all that is
// admitted after a reset is at most what had been charged before and not been spent yet, and
// one more limit.
//
// A store alone can't hold that, because its callers have leases in memory. It makes it
// possible: each call of a term says in [Term.Resets] up to which number the caller has dropped
// what was reset, and fails with [ErrTerm], inside its transaction, if that is not the number
// of the newest reset. The caller then
//
//  1. asks for [Resetter.Resets] after the number that it knows,
//  2. drops what it has in memory of these keys and clients: leases, blocks, records, offenses
//     noted before, and what its open batch would give back; of all keys and clients if
//     [Resets.Lost],
//  3. goes on with the number of the newest, and makes its call again.
//
// It must do that where it makes its claims, between two of them: then every lease that it holds
// was charged before the resets it has just read. To drop a lease is always safe, because its
// units stay charged. A process that is killed gives nothing back. A process that has no claims
// to make asks for Resets now and then, which is cheap, so that it doesn't refuse for long who was
// reset elsewhere; what it spends meanwhile was charged before the reset.
//
// A caller that opens a store learns the number with its [Time]. If that store [Store.Continues]
// the one before, it must drop what was reset meanwhile; if it doesn't, nothing that was charged
// to the one before may be given back anyway.
type Resetter interface {
	Timekeeper

	// Reset forgets and notes, all in one transaction and within a term. It sets what the store
	// sets in each, and the number in the term's Time to the newest one. Its errors are those of
	// Claim.
	Reset(ctx context.Context, term *Term, resets []Reset) error

	// Resets returns the resets after a number. If there are none it reads one row. It doesn't
	// wait for what other processes write, nor do they wait for it.
	Resets(ctx context.Context, after int64) (Resets, error)
}

// Bounds of the list of resets.
const (
	// KeepResets is how long a reset is known, at least, unless it is not among the
	// MaxResets newest.
	KeepResets = 24 * time.Hour
	// MaxResets is how many of them are known.
	MaxResets = 4096
)
