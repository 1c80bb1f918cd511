package journal

import (
	"context"
	"errors"
	"os"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/sleeplock"
)

// Record is an entry of the journal.
type Record struct {
	Limit  int64
	Key    [16]byte
	Bucket bool     // the record's kind
	N      [4]int64 // their meaning is up to the caller
}

// Options say which journal to open.
type Options struct {
	// Path is the file's. It must be the journal's alone: contents that are no journal
	// are overwritten by Own.
	Path string
	// Origin names the database that the journal belongs to.
	Origin int64
	// Segments (1 to 480) and Records, of each segment, are for a file that is made. A
	// journal that exists keeps its own. 0 means DefaultSegments and DefaultRecords. All
	// together may have a GiB.
	Segments, Records int
}

// The defaults of [Options]: 32 MiB.
const (
	DefaultSegments = 64
	DefaultRecords  = 8192
)

var (
	// ErrUnsupported says that there can be no journal on this platform, or on the file
	// system of its path.
	ErrUnsupported = errors.New("a mapped journal is not supported here")
	// ErrClosed is the error of a Journal that is closed.
	ErrClosed = errors.New("the journal is closed")
)

// Journal is an open journal. Its methods may be called by any goroutine at any time, also
// while or after it is closed.
type Journal struct {
	path   string
	origin int64
	file   *os.File
	size   int64 // of the file
	mem    *mapping
	full   chan struct{}

	writing atomic.Pointer[Segment] // where Add goes, or nil
	token   atomic.Uint64           // of this period of ownership, or 0
	broken  atomic.Pointer[error]   // why the journal can't be used any more
	closed  atomic.Bool

	// mu guards the following fields, and changes of writing and token, except that a fault sets
	// writing to nil without it. It is held while Adds end, which don't need it.
	mu      sleeplock.Lock
	header  header // of the contents; zero if they are foreign
	foreign bool
	period  *period    // since the last Own, also if it was revoked since; nil after Disown
	past    []*Segment // by slot: those of the last period, whatever the file says of them later
}

// Open opens the journal at a path, and makes it if there is none. It announces this Journal
// to all others: whoever owns the journal, owns it no more from when Open returns. It waits
// for others that are about to open or own the journal until ctx ends.
func Open(ctx context.Context, o Options) (*Journal, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	for {
		j, err := open(ctx, o)
		if err != errReplaced {
			return j, err
		}
	}
}

// ID returns the id of the contents, 0 if they are foreign. It changes only when Own makes
// foreign contents anew.
func (j *Journal) ID() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.header.id
}

// Places returns how many segments there are.
func (j *Journal) Places() int { return int(j.mem.segments) }

// Foreign reports whether the contents belong to another origin or are no journal, as in a
// new file. Nothing is pending then, and Own makes the contents anew.
func (j *Journal) Foreign() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.foreign
}

// Full returns a channel that holds a token when a segment has become full since the last
// token was taken.
func (j *Journal) Full() <-chan struct{} { return j.full }

// Close gives ownership up, waits for every Add that is under way, and lets the file go.
// Calling it again does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed.Load() {
		return nil
	}
	j.endPeriodLocked()
	j.closed.Store(true)
	err := j.mem.vacate()
	// A child process that was forked and has not begun its program yet shares the file's
	// description, and with it the locks: they are given up rather than left to end.
	err = errors.Join(err, unlock(j.file, electionByte, 1+presenceBytes))
	return errors.Join(err, j.file.Close())
}
