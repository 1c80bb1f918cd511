package journal

import (
	"context"
	"errors"
	"fmt"
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
	// Path is the path of the file. Own overwrites contents that are no journal.
	Path string
	// Origin names the database that the journal belongs to.
	Origin int64
	// Segments (1 to 480) and Records, in each segment, are the size of a new file; an existing journal
	// keeps its own. 0 means 64 segments and 8192 records. The maximum is 1 GiB.
	Segments, Records int
}

// The defaults of [Options]: 32 MiB.
const (
	defaultSegments = 64
	defaultRecords  = 8192
)

var (
	// ErrUnsupported says that there can be no journal on this platform, or on the file
	// system of its path.
	ErrUnsupported = errors.New("a journal is not supported here")
	// errClosed is the error of a closed Journal.
	errClosed = errors.New("the journal is closed")
)

// Journal is an open journal. Any goroutine may call its methods at any time, also during and after Close. All methods
// but Places, Full and Err read or write the file, and so wait for the disk as long as it takes: not to be called with
// a lock that a request waits for.
type Journal struct {
	path   string
	origin int64
	file   *os.File
	size   int64  // of the file
	shape  header // only its numbers of segments and records
	full   chan struct{}

	token  atomic.Uint64         // the token of this period of ownership, or 0
	broken atomic.Pointer[error] // why the journal can't be used any more
	closed atomic.Bool

	// mu guards the following fields, and changes of token. All writes to the file are made with it, except that a
	// Journal that is being opened writes the owner word.
	mu      sleeplock.Lock
	writing *Segment // the segment of Add, or nil
	buffer  []byte   // what Add is about to write
	header  header   // of the contents; zero if they are foreign
	foreign bool
	period  *period    // since the last Own, also if it was revoked since; nil after Disown
	past    []*Segment // by slot: the segments of the last period, whatever the table has later
}

// Open opens the journal at a path, and creates it if there is none. It revokes the owner before it returns. It waits
// for other processes inside Open or Own until ctx ends.
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

// ID returns the ID of the contents, 0 if they are foreign. It changes only when Own replaces foreign contents.
func (j *Journal) ID() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.header.id
}

// Places returns the number of segments.
func (j *Journal) Places() int { return int(j.shape.segments) }

// Full returns a channel that has a token after a segment has become full.
func (j *Journal) Full() <-chan struct{} { return j.full }

// Close ends the ownership and closes the file. Further calls do nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed.Load() {
		return nil
	}
	j.endPeriodLocked()
	j.closed.Store(true)
	// A forked child process that has not begun its program yet shares the file's description and its locks.
	// So the locks are released explicitly.
	return errors.Join(unlock(j.file, electionByte, 1+presenceBytes), j.file.Close())
}

// breakWith marks the journal as broken, and returns the reason as an error.
func (j *Journal) breakWith(why error) error {
	if j.closed.Load() {
		return errClosed
	}
	err := fmt.Errorf("journal %q: %w", j.path, why)
	j.broken.CompareAndSwap(nil, &err)
	return *j.broken.Load()
}

// Err returns why the journal is broken, or nil. Adds to a broken journal fail. To retry, close it and open another.
func (j *Journal) Err() error {
	if err := j.broken.Load(); err != nil {
		return *err
	}
	if j.closed.Load() {
		return errClosed
	}
	return nil
}
