package storage

import "errors"

// Remote is a store on a network, which several machines use at a time. An engine on one
// renews leases before they are used up, sends batches of bounded size, gives back what it
// doesn't need sooner, and tries more often to use the store again after a fault. It asks a
// [Watcher] for news every 0.75 seconds, also where nobody claims anything.
//
// # What a store on a network has to do
//
//   - Deadlines. Every context that an engine calls with ends, after a second or twice the time
//     that a request waits at most. The call returns by then. [Timekeeper.Time] and Close have
//     no context: they return within a second. An [Opener] has a second, or ten times the time that
//     a request waits.
//   - Exactly once. A call that was sent and not answered may have taken effect. The store sends
//     it again until it learns that, in such a way that it never takes effect twice: for example
//     by a number that the engine's batches have in the order of their sending, kept in the same
//     transaction. It returns [ErrUnknownOutcome] only when the context has ended; such a call
//     must not take effect any more once a later one has, or the store was closed and opened again.
//   - Writes that are lost. A replica that takes over, or a backup, may lack what was
//     acknowledged. Each call, and each call of [Watcher.News], returns [ErrLostWrites] when it
//     finds that. A store that is opened afterwards doesn't continue the one before.
//   - Time. [Timekeeper] is how machines whose clocks differ agree on the time. A store that asks
//     its server for the time reads [Term.Clock] before it sends: what the engine takes for the
//     time then is never behind that of the server, so leases end early and never late.
type Remote interface {
	Timekeeper

	// MaxBatch returns how many claims, how many clients and how many offenses an engine puts
	// into a call at most; it is at least 1. What is more the engine cuts into several calls, one
	// after the other, each in a transaction of its own: a store need not split a call, and
	// doesn't refuse a larger one. A good value is as many as take about as long as a round
	// trip, for example 128.
	MaxBatch() int

	// Lacks reports whether the store lacks writes of an earlier one that were acknowledged. If it
	// lacks none and doesn't continue the earlier one, it isn't known whether the last calls of
	// that one took effect, as after a process that was stopped for a while.
	Lacks(earlier Store) bool
}

// ErrLostWrites reports that the store has lost acknowledged writes. Nothing
// has changed. The caller opens the store again, which then doesn't continue this one, and
// charges to it what it knows to be used.
var ErrLostWrites = errors.New("the store has lost writes that it had acknowledged")
