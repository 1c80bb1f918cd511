package engine // engine

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/internal/engine/table"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Options configure an [Engine]. Open and Name are required; the zero value of
// everything else is the documented default.
type Options struct {
	// Open opens the store. The engine calls it on its own goroutine when it starts and after
	// faults, and closes the stores that it returned.
	Open storage.Opener

	// Name returns the store's name of a key, which doesn't reveal the key. now is in nanoseconds
	// since the Unix epoch and was never set: see [Engine.Lasting]. An error is treated as an error
	// of the store. Name is called on the goroutine that calls Open, after Open has succeeded.
	Name func(id storage.LimitID, key string, remembered time.Duration, now int64) (Name, error)

	// NameAtOnce names a key as Name does, or returns false if it would have to wait. Any goroutine
	// may call it, several at a time. If it is nil, no claims are granted at once, see
	// [storage.Local].
	NameAtOnce func(id storage.LimitID, key string, remembered time.Duration, now int64) (Name, bool)

	// MaxKeys is the maximum number of keys in memory, counted once per limit. 1 to [MostKeys]; zero
	// means 1,000,000.
	MaxKeys int

	// StoreTimeout is how long a decision waits for the store before memory
	// decides alone. Zero means [storage.DefaultTimeout].
	StoreTimeout time.Duration

	// CleanupInterval is how often the engine removes expired rows, and keys that were unused since
	// the last cleanup and for at least a minute. Zero means one minute.
	CleanupInterval time.Duration

	// DegradedPercent is the share of every limit that memory admits while the
	// store can't be used, from 1 to 100. Zero means 40.
	DegradedPercent int

	// Remote reports that the store is on a network. The engine then tries more often to open it.
	// For an open store the engine finds out by itself, see [storage.Network].
	Remote bool

	// Noted is called with the notes of the store, see [storage.Note]: the changed ones, or all
	// of them if all is true. It is called by one goroutine at a time, the poller's. If it is nil,
	// no notes are read.
	Noted func(notes []storage.Note, all bool)

	// Notes are known before the store is open, for example from another engine on the same store.
	// They are written to the store.
	Notes []storage.Note

	// Observer is notified of events. Nil means no observer.
	Observer Observer

	// Clock reads the clocks of the process. Nil means the system's.
	Clock Clock

	// resetInterval is how often the store is asked for resets of other processes. Zero means the
	// constant of that name. Tests with days of virtual time need fewer.
	resetInterval time.Duration

	changed *atomic.Pointer[Options] // the options in force, see [Engine.Change]
}

// now returns the options in force.
func (o *Options) now() *Options { return o.changed.Load() }

// follow makes the options in force those in o, until they are changed.
func (o *Options) follow() {
	o.changed = new(atomic.Pointer[Options])
	o.changed.Store(o)
}

// Clock reads the clocks of the process.
type Clock = clock.Source

// defaultClock returns the clock of an engine whose options have none. It is a variable because
// tests of whole Caddys replace it by its link name.
var defaultClock = clock.System

// Name is the name of a key in the store.
type Name struct {
	Key storage.Key
	// Former is the previous name of the key, or zero. It is set as long as rows under it are
	// remembered.
	Former storage.Key
	// From and Until bound the time in which the key has this name, From ≤ now < Until, in
	// nanoseconds since the Unix epoch. If Until is 0, the name never changes.
	From, Until int64
}

// Defaults and bounds of [Options].
const (
	DefaultMaxKeys         = 1_000_000
	MostKeys               = table.MaxEntries
	defaultCleanupInterval = time.Minute
	defaultDegradedPercent = 40
)

// Observer is notified of events other than decisions, for logs and metrics. Its methods are called
// without locks held, from the engine's own goroutines unless they say otherwise. They should
// return soon.
type Observer interface {
	// Committed reports a batch of claims that the store answered.
	Committed(claims int, took time.Duration)
	// Swept reports a finished round of cleaning: rows deleted from the store, idle
	// keys dropped from memory, and how long it took.
	Swept(rows int64, keys int, took time.Duration, err error)
	// Punished reports an offense when it is noted in memory. It is called from a request's
	// goroutine.
	Punished(reason reputation.Reason)
	// Banned reports that an offense led to a ban of a client until a time, in nanoseconds since
	// the Unix epoch, once the store has recorded it. Banned must not change the client's key.
	Banned(client []byte, reason reputation.Reason, until int64)
	// Outage reports that the store can't be used from now on. It is called for each outage, and
	// like Degraded from any goroutine.
	Outage()
	// Degraded reports that the store can't be used, and the cause: when the outage begins, when
	// the cause turns out to be different from the reported one, and once a minute while it lasts.
	// For successive outages it is called at most once a minute. It may be called from a request's
	// goroutine and from a timer's.
	Degraded(since time.Duration, err error)
	// Recovered reports that the store is in use again.
	Recovered(after time.Duration)
}

// noObserver is the observer of an engine without one.
type noObserver struct{}

func (noObserver) Committed(int, time.Duration)            {}
func (noObserver) Swept(int64, int, time.Duration, error)  {}
func (noObserver) Punished(reputation.Reason)              {}
func (noObserver) Banned([]byte, reputation.Reason, int64) {}
func (noObserver) Outage()                                 {}
func (noObserver) Degraded(time.Duration, error)           {}
func (noObserver) Recovered(time.Duration)                 {}

// withDefaults returns the options with zero values replaced.
func (o Options) withDefaults() Options {
	o.MaxKeys = cmp.Or(o.MaxKeys, DefaultMaxKeys)
	o.StoreTimeout = cmp.Or(o.StoreTimeout, storage.DefaultTimeout)
	o.CleanupInterval = cmp.Or(o.CleanupInterval, defaultCleanupInterval)
	o.DegradedPercent = cmp.Or(o.DegradedPercent, defaultDegradedPercent)
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Clock == nil {
		o.Clock = defaultClock()
	}
	return o
}
