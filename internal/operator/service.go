package operator

import "context"

// Service is what an operator sees and can do. Its methods may be called from several
// goroutines at once. Errors that a person can mend are of type [*Error].
type Service interface {
	// Status describes the stores and the memory in front of them.
	Status(ctx context.Context) (Status, error)
	// Zones describes the zones of the configuration that runs, in its order.
	Zones(ctx context.Context) ([]Zone, error)
	// Keys lists keys that memory holds, the heaviest first.
	Keys(ctx context.Context, q KeysQuery) ([]Key, error)
	// Bans lists who is banned, and who is allowed, by an operator or by their conduct.
	Bans(ctx context.Context) ([]Ban, error)
	// Refusals returns what was refused in the last minutes, in a zone, or in all if it is "".
	Refusals(ctx context.Context, zone string) (Refusals, error)
	// History returns what was decided in the past.
	History(ctx context.Context, q HistoryQuery) (History, error)
	// Usage returns how much a key has used in a month.
	Usage(ctx context.Context, q UsageQuery) (Usage, error)
	// Audit lists what operators did, the newest first.
	Audit(ctx context.Context, q AuditQuery) ([]Act, error)
	// Explain says everything about a client, or about a request that it might make.
	Explain(ctx context.Context, q Question) (Explanation, error)

	// Reset forgets what a client has used, in one zone or in all.
	Reset(ctx context.Context, o Order) (Done, error)
	// Ban refuses every request of a client, from now until the order's end.
	Ban(ctx context.Context, o Order) (Done, error)
	// Unban ends the bans of a client, by an operator or by its conduct. Its violations are
	// forgotten.
	Unban(ctx context.Context, o Order) (Done, error)
	// Allow lets every request of a client pass, whatever bans or limits say, until the
	// order's end.
	Allow(ctx context.Context, o Order) (Done, error)
	// Disallow ends what Allow began.
	Disallow(ctx context.Context, o Order) (Done, error)
	// Import adds bans and allowances, all or none.
	Import(ctx context.Context, i Import) (Done, error)
	// Reveal notes in the audit that somebody has looked at the addresses of a list, for
	// example "bans". Who that is comes from by, as in [Order].
	Reveal(ctx context.Context, by, list string) error

	// APIKeys lists the API keys in a store that machines share.
	APIKeys(ctx context.Context) ([]StoredKey, error)
	// AddAPIKey adds a key to that store: the line of a stored key, which has its hash.
	AddAPIKey(ctx context.Context, line string) error
	// ChangeAPIKeys gives keys in that store another tier, or revokes them, and returns how many
	// there were.
	ChangeAPIKeys(ctx context.Context, change APIKeyChange) (int, error)

	// Events sends what happens until ctx ends, and closes the channel then. A receiver that
	// is too slow misses events. There are at most [MaxStreams] at once.
	Events(ctx context.Context) (<-chan Event, error)
}

// Bounds of what is asked for and answered.
const (
	MaxItems   = 1000     // of a list
	MaxBody    = 64 << 10 // bytes of a request
	MaxReason  = 200      // characters of a reason
	MaxStreams = 32       // streams of events at once
)
