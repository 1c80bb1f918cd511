package storage

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// LimitID names a limit across processes, restarts and machines that use one store. It doesn't depend
// on the amount, so a limit keeps its counts when its amount changes. A limit with another window,
// algorithm or number of slots has another ID, and starts from zero.
type LimitID uint64

// Key names a client, or another value that a limit counts by. It is a keyed hash made by the
// caller, so the store doesn't know the value.
type Key [16]byte

// Claim asks for units of one key of one limit.
type Claim struct {
	ID  LimitID
	Key Key
	// Former is an earlier name of the key, or zero. Counts under it are moved to Key. Claims of
	// one batch and key have one former name.
	Former Key
	// Limit is the limit with the amount in force for this key.
	Limit limiter.Limit
	// Claim has the wanted units and the returned lease.
	limiter.Claim
}

// IsRenamed reports whether the key has an earlier name.
func (c *Claim) IsRenamed() bool { return c.Former != (Key{}) && c.Former != c.Key }

// Client names a client with a record.
type Client struct {
	Key Key
	// Former is an earlier name of the client, or zero. A record under it is moved to Key.
	Former Key
}

// IsRenamed reports whether the client has an earlier name.
func (c Client) IsRenamed() bool { return c.Former != (Key{}) && c.Former != c.Key }

// Offense is an offense of a client.
type Offense struct {
	Client
	reputation.Offense
}

// Swept is the result of one step of a sweep.
type Swept struct {
	// Rows is how many expired rows were deleted.
	Rows int64
	// More reports whether the step stopped at its bound, so that another step may delete more.
	More bool
}

// Stats describes a store at one moment.
type Stats struct {
	// Bytes is the total space that the store takes on disk, or an estimate of its memory if it has
	// no disk.
	Bytes int64
	// JournalBytes is the part of Bytes that is a journal of fixed size.
	JournalBytes int64
}

// Store keeps counters, records of clients, and audit entries. Every store is also a [Local]
// or a [Network] (decision 155); some also are a [Historian]. Its methods may be called from several goroutines
// at once; they need not run in parallel.
//
// # Time
//
// A store holds one [Time] for all processes that use it, however much their clocks differ. It never
// runs backwards except where it is set, which begins an era. It advances at the pace of a steady
// clock, and approaches the wall clock as [Slew] says. If the two differ by more than that can heal,
// the time is set, once for everybody.
//
// # Terms
//
// A call with a term takes the time inside its transaction, when no other call can change the store any
// more, and is decided as of then. It sets the term's Time, and fails with [ErrTerm] if the term doesn't
// hold. If the time is set, records move with it, and last as long as they would have. Two calls must not
// use a term at the same time. The other calls are upkeep, which is as of the times in its arguments (decision 171).
type Store interface {
	Auditor

	// Claim answers all claims, in order, and charges the granted units in one transaction. It sets the
	// time of each claim. grants must be as long as claims; it is overwritten. Several claims of one key
	// see one another. A claim that gives, charges and wants nothing may be answered as of a moment
	// before the others.
	//
	// An error that wraps [ErrUnknownOutcome] leaves open whether the batch took effect. After any
	// other error nothing has changed.
	Claim(ctx context.Context, term *Term, claims []Claim, grants []limiter.Grant) error

	// Probe answers claims as Claim would, and charges nothing. Its errors are those of Claim.
	Probe(ctx context.Context, term *Term, claims []Claim, grants []limiter.Grant) error

	// Records reads the records of clients, in order. An unknown client has the zero record.
	// records must be as long as clients; it is overwritten.
	Records(ctx context.Context, term *Term, clients []Client, records []reputation.Record) error

	// Punish commits offenses, in order and in one transaction, and returns the resulting records
	// in records, which must be as long as offenses. Its errors are those of Claim.
	Punish(ctx context.Context, term *Term, offenses []Offense, records []reputation.Record) error

	// Banned returns the records of at most most clients whose ban lasts at now. Clients that are
	// renamed meanwhile may be missing. It reads all records, a bounded number at a time, and no
	// claim waits for it. now and the times in the records are as if the time of the store had never
	// been set: Now less Shift, see [Time].
	Banned(ctx context.Context, now int64, most int) (map[Key]reputation.Record, error)

	// Sweep deletes a bounded number of expired rows, so that a claim waits for one short step at
	// most. Units that still count are never swept.
	Sweep(ctx context.Context, term *Term) (Swept, error)

	// Time returns the time of the store. A store that has lost track of time uses least, unless that
	// is too far from the wall clock to be true.
	Time(clock Clock, least int64) (Time, error)

	// Reset forgets and notes resets, in one transaction, see [Reset]. It sets the
	// store's fields of each reset, and the newest number in the term's Time. Its errors are those
	// of Claim.
	Reset(ctx context.Context, term *Term, resets []Reset) error

	// Resets returns the resets after a number. If there are none it reads one row. It doesn't
	// wait for the writes of other processes, nor do they wait for it.
	Resets(ctx context.Context, after int64) (Resets, error)

	// Join notes that the process with an id uses the store until a time, unless it joins again
	// before, and returns the processes present at now. Both times are nanoseconds since the Unix
	// epoch.
	Join(ctx context.Context, id, now, until int64) (Presence, error)

	// Leave notes that a process no longer uses the store.
	Leave(ctx context.Context, id int64) error

	// Stats measures the store, as it is or was a while ago. It doesn't wait for other calls,
	// however long these take.
	Stats(ctx context.Context) (Stats, error)

	// Continues reports whether this store holds the charges of an earlier one, which may be closed
	// by now. It does not if the database was removed, replaced or set aside between the two.
	Continues(earlier Store) bool

	// Close releases the store. It waits for calls that are under way; later calls return
	// [ErrClosed].
	Close() error
}

// Presence says which of the processes that use a store one is. The zero value says that others are
// not counted.
type Presence struct {
	// Processes is how many processes use the store.
	Processes int
	// Process is the number of this one among them, from 0.
	Process int
}

// Opener opens a store. It is called again after a fault, so it must not depend on the results of
// an earlier call.
type Opener func(ctx context.Context) (Store, error)

// Errors that a store wraps so that callers can tell them apart.
var (
	// ErrClosed says that the store was closed before.
	ErrClosed = errors.New("store is closed")
	// ErrForeign says that the file in the place of the database belongs to another program, or to a
	// newer version. It was left as it was.
	ErrForeign = errors.New("not a database of this version of caddy-tally")
	// ErrCorrupt says that the database is damaged. Opening it again sets it aside and starts an
	// empty one.
	ErrCorrupt = errors.New("database is damaged")
	// ErrUnknownOutcome says that a batch may or may not have been applied.
	ErrUnknownOutcome = errors.New("outcome unknown")
)

// DefaultTimeout is how long a request waits for a store unless configured otherwise.
const DefaultTimeout = 100 * time.Millisecond
