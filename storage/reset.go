package storage

import "time"

// Reset forgets a limit's counts of a key, or the record of a client, at an operator's wish.
//
// # Invariant
//
// Units charged before a reset are never given back to the count after it. So the units admitted
// after a reset are at most those charged before and not spent yet, and one more limit.
//
// A store alone can't hold that, because its callers have leases in memory. It makes it possible (decision 64):
// each call of a term says in [Term.Resets] which resets the caller has followed. Inside its
// transaction the call fails with [ErrTerm] if that is not the number of the newest reset. The
// caller then
//
//  1. asks for [Store.Resets] after the number that it knows,
//  2. drops all its state of these keys and clients: leases, blocks, records, offenses noted
//     before, and units that its open batch would give back; if [Resets.Lost], that of all keys and
//     clients,
//  3. continues with the number of the newest, and makes its call again.
//
// It must do so between two of its claims: then it holds only leases that were charged before the
// resets it has just read. Dropping a lease is always safe, because its units stay charged. A
// process that is killed gives nothing back. A process without claims asks for Resets now and then,
// which is cheap, so that it doesn't go on refusing a client that was reset elsewhere; the units that
// it spends meanwhile were charged before the reset.
//
// A caller that opens a store learns the number with its [Time]. If that store [Store.Continues]
// the previous one, the caller must drop what was reset meanwhile. If it doesn't, no units charged to
// the previous one may be given back anyway.
type Reset struct {
	// ID is chosen at random by the caller. A reset whose ID is noted already is not repeated, so
	// after [ErrUnknownOutcome] the caller can request it again.
	ID int64
	// Client selects the record of a client: its violations, score and ban. Otherwise the reset
	// forgets the counts of a key in Limit.
	Client bool
	Limit  LimitID
	// Key names the key or the client. Former is an earlier name, or zero; both are forgotten.
	Key, Former Key

	// The store sets the following fields.

	// Number is counted from 1, without gaps, in the order in which resets took effect.
	Number int64
	// At is when the reset took effect, in nanoseconds since the Unix epoch, as if the time of the
	// store had never been set: Now less Shift, see [Time]. The names are those of that moment.
	At int64
	// Found reports whether there was something to forget.
	Found bool
}

// Resets are the resets after some number.
type Resets struct {
	List   []Reset // in the order of their numbers
	Newest int64   // the number of the newest reset, 0 if there was none
	// Lost reports whether the list is incomplete, because the store no longer knows the older ones,
	// or is another store. Anything may have been reset.
	Lost bool
}

// Bounds of the list of resets.
const (
	// KeepResets is how long a reset is known, at least, if it is among the MaxResets newest.
	KeepResets = 24 * time.Hour
	// MaxResets is how many resets are known.
	MaxResets = 4096
)
