package operator

import "context"

// Service is an operator's view and actions. Its methods may be called from several goroutines at
// once. Errors that a person can resolve are of type [*Error].
type Service interface {
	// Status describes the stores and the memory in front of them.
	Status(ctx context.Context) (Status, error)
	// Zones describes the zones of the running configuration, in its order.
	Zones(ctx context.Context) ([]Zone, error)
	// Keys lists keys in memory, the heaviest first.
	Keys(ctx context.Context, q KeysQuery) ([]Key, error)
	// Bans lists operators' bans, allowances and raises, and automatic bans.
	Bans(ctx context.Context) ([]Rule, error)
	// Refusals returns a sample of the last minutes' requests.
	Refusals(ctx context.Context, q RefusalsQuery) (Refusals, error)
	// History returns past decisions.
	History(ctx context.Context, q HistoryQuery) (History, error)
	// Usage returns how much a key has used in a month.
	Usage(ctx context.Context, q UsageQuery) (Usage, error)
	// Audit lists the actions of operators, the newest first.
	Audit(ctx context.Context, q AuditQuery) ([]Act, error)
	// Explain explains the state of a client, or forecasts a request of it.
	Explain(ctx context.Context, q Question) (Explanation, error)

	// Do executes an action on a client.
	Do(ctx context.Context, action Action, o Command) (Done, error)
	// Charge charges units to a client in a zone, or gives them back.
	Charge(ctx context.Context, c Charge) (Charged, error)
	// TestNotify sends a message to each webhook, and tells what came back.
	TestNotify(ctx context.Context) ([]Notified, error)
	// Import adds bans, allowances and raises, all or none.
	Import(ctx context.Context, i Import) (Done, error)
	// Reveal records in the audit that a user has looked at the addresses of a list, for example
	// "bans". by is the user, as in [Command].
	Reveal(ctx context.Context, by, list string) error

	// APIKeys lists the API keys in a shared store.
	APIKeys(ctx context.Context) ([]StoredKey, error)
	// AddAPIKey adds a key to that store: the line of a stored key, which contains its hash.
	AddAPIKey(ctx context.Context, line string) error
	// ChangeAPIKeys changes the tier of keys in that store, or revokes them, and returns their
	// number.
	ChangeAPIKeys(ctx context.Context, change APIKeyChange) (int, error)

	// Events sends events until ctx ends, and closes the channel then. A receiver that is too slow
	// misses events. There are at most [MaxStreams] at once.
	Events(ctx context.Context) (<-chan Event, error)
}

// Bounds of requests and answers.
const (
	MaxItems   = 1000                           // of a list
	MaxBody    = 64 << 10                       // bytes of a request
	MaxReason  = 200                            // characters of a reason
	MaxRule    = Seconds(100 * 365 * 24 * 3600) // of a ban, allowance or raise with an end
	MaxStreams = 32                             // streams of events at once
)
