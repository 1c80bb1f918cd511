package storage

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// LimitID names a limit across processes, restarts and machines: the limits of
// every process that uses one store agree on it. It says nothing of the amount,
// so a limit keeps its counts when its amount changes; a limit whose window,
// algorithm or slots change gets another ID, and so starts from zero.
type LimitID uint64

// Key names a client, or another value that a limit counts by, without telling which
// it is: a keyed hash made before it reaches the store.
type Key [16]byte

// Claim asks for units of one key of one limit.
type Claim struct {
	ID  LimitID
	Key Key
	// Former is a name that the key had before, or zero. What is kept under it
	// counts for the key, and is kept under Key from then on. Claims of one batch
	// and key have one former name.
	Former Key
	// Limit is the limit with the amount that is in force for this key.
	Limit limiter.Limit
	// Claim has the wanted units and the returned lease.
	limiter.Claim
}

// Client names a client whose standing is kept.
type Client struct {
	Key Key
	// Former is a name that the client had before, or zero. What is known under it
	// is known of the client, and is kept under Key from then on.
	Former Key
}

// Offense is an offense of a client.
type Offense struct {
	Client
	reputation.Offense
}

// Swept is the result of one step of a sweep.
type Swept struct {
	// Rows is how many expired rows were deleted.
	Rows int64
	// More reports whether the step stopped at its bound, so that another one would
	// find more to do.
	More bool
}

// Stats describes a store at one moment.
type Stats struct {
	// Bytes is the space the store takes on disk, everything it writes included. Of
	// a store that has no disk it is the memory, an estimate.
	Bytes int64
	// FreeBytes is the part of Bytes that holds nothing at the moment.
	FreeBytes int64
	// JournalBytes is the part of Bytes that is a journal of fixed size.
	JournalBytes int64
}

// Store keeps the counters. Its methods may be called from several goroutines
// at once; they need not run in parallel.
type Store interface {
	// Claim answers every claim, in order, and charges the granted units: all of
	// them in one transaction, or none and an error. grants must be as long as
	// claims; it is overwritten. Several claims of one key see one another.
	//
	// An error that wraps [ErrUnknownOutcome] leaves open whether the batch took
	// effect. After any other error nothing has changed.
	Claim(ctx context.Context, claims []Claim, grants []limiter.Grant) error

	// Records reads the records of clients at now, in order; of a client that
	// nothing is known of, the zero record. records must be as long as clients; it
	// is overwritten.
	Records(ctx context.Context, clients []Client, now int64, records []reputation.Record) error

	// Punish commits offenses, in order and all in one transaction, and returns
	// the records that they lead to in records, which must be as long as
	// offenses. Its errors are those of Claim.
	Punish(ctx context.Context, offenses []Offense, records []reputation.Record) error

	// Sweep deletes expired rows, a bounded number at a time, so that a claim
	// waits for one short step at most. now is nanoseconds since the Unix epoch.
	// Units that still count are never swept.
	Sweep(ctx context.Context, now int64) (Swept, error)

	// Stats measures the store, as it is or was a while ago. It doesn't wait for
	// other calls, however long these take.
	Stats(ctx context.Context) (Stats, error)

	// Continues reports whether this store holds the charges of an earlier
	// one, which may be closed by now. It does not if the database was removed,
	// replaced or set aside between the two.
	Continues(earlier Store) bool

	// Close gives up the store. It waits for calls that are under way; calls
	// after it return [ErrClosed].
	Close() error
}

// Presence says which of the processes that use a store one is. The zero value says
// that it is not known whether there are others.
type Presence struct {
	// Processes is how many processes use the store.
	Processes int
	// Process is the number of this one among them, from 0.
	Process int
}

// Shared is a store that knows how many processes use it.
type Shared interface {
	// Join notes that the process with an id uses the store until a time, unless it
	// joins again before, and returns who does at now. Both are nanoseconds since the
	// Unix epoch.
	Join(ctx context.Context, id, now, until int64) (Presence, error)

	// Leave notes that a process doesn't use the store any more.
	Leave(ctx context.Context, id int64) error
}

// Marked is a store for processes that each have the secret of its names in a file. It notes a mark of
// that secret, so that they don't count apart because they have different ones.
type Marked interface {
	Store

	// Mark notes a mark other than 0, unless there is one and a process stays at a time. It returns
	// the mark before, 0 if there was none, and the one afterwards. [Shared] Join fails once that was
	// replaced.
	Mark(ctx context.Context, now, mark int64) (former, kept int64, err error)
}

// Opener opens a store. It is called again after a fault, so it must not depend
// on the remains of an earlier call.
type Opener func(ctx context.Context) (Store, error)

// Errors that a store wraps so that callers can tell them apart.
var (
	// ErrClosed says that the store was closed before.
	ErrClosed = errors.New("store is closed")
	// ErrForeign reports that the file in the place of the database is not
	// this store's, or is a newer version's: it was left as it was.
	ErrForeign = errors.New("not a database of this version of caddy-tally")
	// ErrCorrupt says that the database is damaged. Opening it again sets it
	// aside and starts an empty one.
	ErrCorrupt = errors.New("database is damaged")
	// ErrUnknownOutcome says that a batch may or may not have been applied.
	ErrUnknownOutcome = errors.New("outcome unknown")
)

// DefaultTimeout is how long a request waits for a store unless configured
// otherwise.
const DefaultTimeout = 100 * time.Millisecond

// BanLister is a store that lists who is banned, for operators. It reads all records, a bounded
// number at a time, and no claim waits for it.
type BanLister interface {
	// Banned returns the records of clients whose ban lasts at now, at most most of them. Clients
	// that are renamed meanwhile may be missing. now and the times in the records are as if the time
	// of the store had never been set: Now less Shift, see [Time].
	Banned(ctx context.Context, now int64, most int) (map[Key]reputation.Record, error)
}
