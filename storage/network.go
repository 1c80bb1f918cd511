package storage

import (
	"context"
	"errors"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Network is a store on a network that several machines use. An engine on one renews leases before
// they are used up, sends batches of bounded size, gives back unused units sooner, and retries more
// often after a fault. It asks for [Network.News] every 0.75 seconds, even without claims.
//
// # What a store on a network must do
//
//   - Deadlines. Every context of an engine's call ends, after a second or twice the time that a
//     request waits, whichever is longer. The call returns by then. [Store.Time] and Close have no
//     context and return within a second. An [Opener] has a second, or ten times the time that a
//     request waits.
//   - Exactly once. A call that was sent and not answered may have taken effect. The store sends
//     it again until it learns that, in such a way that it never takes effect twice. For example,
//     the engine's batches are numbered in the order of sending, and the number is stored in the
//     same transaction. The store returns [ErrUnknownOutcome] only when the context has ended. Such
//     a call must not take effect after a later one has, or after the store was closed and opened
//     again.
//   - Lost writes. A replica that takes over, or a backup, may lack acknowledged writes. Each
//     call returns [ErrLostWrites] when it finds that, News included. A store that is opened
//     afterwards doesn't continue the previous one.
//   - Time. Machines whose clocks differ agree on [Store.Time]. A store that asks its server for the
//     time reads [Term.Clock] before it sends. So the engine's time is never behind the server's,
//     and leases end early rather than late.
type Network interface {
	Store

	// MaxBatch returns how many claims, clients and offenses an engine puts into one call; it is at
	// least 1. The engine makes several calls, each in a transaction of its own, where there are
	// more. A store need not split a call, and accepts a larger one. A good value takes the server
	// about as long as a round trip, for example 128.
	MaxBatch() int

	// Lacks reports whether the store lacks acknowledged writes of an earlier one. If it lacks none
	// and doesn't continue the earlier one, it is unknown whether the last calls of the earlier one
	// took effect, for example after the process was stopped for a while.
	Lacks(earlier Store) bool

	// ClaimFor is Records and Claim, in one transaction and one round trip, as of one
	// time. The claims don't depend on the records read: the caller chose their limits before. It
	// claims again if the records lead to other limits (decision 66). There may be no clients, or no claims.
	// Its errors are those of Claim.
	ClaimFor(ctx context.Context, term *Term, clients []Client, records []reputation.Record, claims []Claim,
		grants []limiter.Grant) error

	// News returns the changes by all processes since those that the caller has seen, so that it
	// reads changed records again. It takes one round trip and reads little. Another goroutine calls
	// it while claims are under way, and neither waits for the other. It waits for the writes of
	// other processes no longer than [Store.Resets] does.
	News(ctx context.Context, seen Seen) (News, error)

	// PutNotes changes notes, in one transaction, and sets the version of each to the resulting one.
	// Without replay each change takes effect: the store raises its version above the previous
	// one. With replay a change takes effect only if its version is higher.
	//
	// Its errors are those of Claim, and [ErrNotesFull]. After [ErrUnknownOutcome] the same notes
	// can be put again.
	PutNotes(ctx context.Context, notes []Note, replay bool) error

	// Values returns a few small values by name, such as the keys that all machines hash under.
	// The caller seals them, so that readers of the store learn nothing from them.
	Values(ctx context.Context) (map[string][]byte, error)

	// SwapValue replaces the former value under a name, and returns the resulting value: this one,
	// or another if the former one wasn't there. So all processes that swap at once get the same
	// value. An empty former value stands for no value, and an empty value removes the former one.
	SwapValue(ctx context.Context, name string, former, value []byte) (kept []byte, err error)
}

// ErrLostWrites says that the store has lost acknowledged writes, or its files. Nothing has changed. The caller
// opens the store again, which then doesn't continue this one, and charges the known usage to it.
var ErrLostWrites = errors.New("the store has lost writes that it had acknowledged")
