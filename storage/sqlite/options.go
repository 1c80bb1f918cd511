package sqlite

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	sqlite3 "modernc.org/sqlite"
)

// Defaults and bounds of [Options].
const (
	DefaultMaxSize     = 1 << 30
	MinMaxSize         = 1 << 20
	DefaultBusyTimeout = 50 * time.Millisecond
)

// Synchronous selects the events that a commit survives.
type Synchronous uint8

const (
	// Normal commits survive a crash or SIGKILL of the process. After a loss of power the last ones may
	// be missing; the database stays sound.
	Normal Synchronous = iota
	// Full commits survive a loss of power, at the price of an fsync for each.
	Full
)

// String returns the word SQLite and the configuration use.
func (s Synchronous) String() string {
	if s == Full {
		return "full"
	}
	return "normal"
}

// Options say where the database is and how it is kept. Only Path has no default.
type Options struct {
	// Path is the database file. The names Path + "-wal", "-shm", "-journal",
	// "-charges", "-damaged" and ".corrupt-…" belong to the store as well. Required.
	Path string

	// Synchronous selects the events that a commit survives. Default: [Normal].
	Synchronous Synchronous

	// MaxSize is the maximum size of the database file in bytes, at least [MinMaxSize]. When it is
	// reached, claims that need room fail until a sweep makes some. The write-ahead log takes about 64 MiB
	// in addition, or more while another process prevents its reuse. Default: [DefaultMaxSize].
	MaxSize int64

	// BusyTimeout is how long one statement waits while another process writes.
	// Default: [DefaultBusyTimeout].
	BusyTimeout time.Duration

	// NoJournal makes each charge a transaction, as where there can be no journal. The records of an
	// existing journal are folded.
	NoJournal bool

	// Notice, if set, is called with events that a person should know and that are no errors: a damaged
	// database was set aside, or the journal has a problem. [Open] calls it on its goroutine, and later
	// the journal's goroutine.
	Notice func(Notice)

	// connect makes connectors; nil means the SQLite driver's. Tests inject failures here.
	connect func(dsn string) (driver.Connector, error)
	// maxWAL is the size in bytes from which on the log is reused from its start.
	maxWAL int64
	// journalSizes are the sizes of new journals, the first that fits.
	journalSizes []journalSize
	// rest sleeps in the middle of a fold; nil means [time.Sleep]. Tests inject events here.
	rest func(time.Duration)
	// now returns the date for the names of files that are set aside.
	now func() time.Time
}

// Notice tells that a damaged database was set aside and a fresh one started, and what was
// counted before is forgotten; or one of the first three, which is of the journal only.
type Notice struct {
	NoJournal bool // there can be no journal, for the cause
	// another journal was opened, because the one before was removed, replaced or resized: the cause says which
	NewJournal   bool
	SmallJournal bool // the journal has fewer segments than the default
	// the journal is not the one that the database goes with: it was removed, or its header is damaged
	LostJournal bool
	Damaged     int // records in an earlier process' journal that were changed; their charges are lost

	Path  string // the database, fresh now
	Aside string // where the damaged one is; its log has the same name and "-wal"
	Cause error  // the problem
}

func (o Options) withDefaults() (Options, error) {
	if o.Path == "" {
		return o, errors.New("sqlite: no path given")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return o, fmt.Errorf("sqlite: path %q: %w", o.Path, err)
	}
	o.Path = path
	if o.Synchronous > Full {
		return o, fmt.Errorf("sqlite: synchronous must be Normal or Full, got %d", o.Synchronous)
	}
	o.MaxSize = cmp.Or(o.MaxSize, DefaultMaxSize)
	if o.MaxSize < MinMaxSize {
		return o, fmt.Errorf("sqlite: max size must be at least %d bytes (1 MiB), got %d", MinMaxSize, o.MaxSize)
	}
	if o.BusyTimeout < 0 {
		return o, fmt.Errorf("sqlite: busy timeout must not be negative, got %v", o.BusyTimeout)
	}
	o.BusyTimeout = cmp.Or(o.BusyTimeout, DefaultBusyTimeout)
	o.maxWAL = cmp.Or(o.maxWAL, maxWAL)
	if o.journalSizes == nil {
		o.journalSizes = journalSizes
	}
	if o.connect == nil {
		o.connect = sqlite3.NewConnector
	}
	if o.rest == nil {
		o.rest = time.Sleep
	}
	if o.now == nil {
		o.now = time.Now
	}
	return o, nil
}
