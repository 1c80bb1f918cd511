package apikeys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/internal/keyfile"
)

const (
	// lookEvery is how often a file is looked at, at most.
	lookEvery = time.Second
	// maxFile bounds what is read of a file: some 500,000 keys.
	maxFile = 64 << 20
)

// File is a file of keys that is read again when it has changed. It is looked at
// when it is used, at most once a second, so it needs no goroutine and no end. It
// may be used from any number of goroutines.
type File struct {
	path    string
	tiers   []string
	changed func(*Set, error)
	start   time.Time

	set     atomic.Pointer[Set]
	trouble atomic.Pointer[Trouble] // written under mu; nil while the file is good
	looked  atomic.Int64            // when the file was last looked at, since start

	mu     sync.Mutex
	seen   fs.FileInfo // guarded by mu: of the file as it was last read; nil if there was none
	unread bool        // guarded by mu: it could not be read, which may change without a change of the file
}

// Trouble says why a file can't be used as it is, and since when it can't.
type Trouble struct {
	Since time.Time
	Err   error
}

// Open reads a file. A file that does not exist has no keys, until it does. When
// it was read again, changed is told the keys that are in force now, or why they
// are still the old ones; once for each change of the file, and on the goroutine
// that called [File.Keys].
func Open(path string, tiers []string, changed func(*Set, error)) (*File, error) {
	f := &File{path: path, tiers: tiers, changed: changed, start: time.Now()}
	set, info, err := f.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f.set.Store(set)
	f.seen = info
	return f, nil
}

// Path returns where the file is.
func (f *File) Path() string { return f.path }

// Trouble returns why the keys in force are not those of the file, or nil.
func (f *File) Trouble() *Trouble { return f.trouble.Load() }

// Keys returns the keys in force, or nil if there has never been a file.
func (f *File) Keys() *Set {
	if now := int64(time.Since(f.start)); now-f.looked.Load() >= int64(lookEvery) {
		f.look(now)
	}
	return f.set.Load()
}

// look reads the file again if it has changed. Whoever comes meanwhile goes on
// with the old keys: a disk that hangs holds up one request, not all.
func (f *File) look(now int64) {
	if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	defer func() { f.looked.Store(now) }()
	info, err := os.Stat(f.path)
	changed := err == nil && !same(info, f.seen) || err != nil && f.seen != nil
	if !changed && !f.unread {
		return
	}
	set, info, err := f.read()
	var noAccess *fs.PathError
	f.seen, f.unread = info, errors.As(err, &noAccess)
	was := f.trouble.Load()
	switch {
	case err == nil:
		f.set.Store(set)
		f.trouble.Store(nil)
	case was == nil:
		f.trouble.Store(&Trouble{time.Now(), err})
	case changed || was.Err.Error() != err.Error():
		f.trouble.Store(&Trouble{was.Since, err})
	default:
		return // as was told
	}
	f.changed(f.set.Load(), err)
}

// same reports whether nothing has changed between two looks at a file.
func same(a, b fs.FileInfo) bool {
	return b != nil && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}

// read reads the file, and tells which version of it that was, as far as it got.
func (f *File) read() (*Set, fs.FileInfo, error) {
	text, info, err := keyfile.Read(f.path, maxFile)
	if err != nil {
		return nil, info, fmt.Errorf("apikeys: %w", err)
	}
	set, err := Parse(text, f.tiers)
	if err != nil {
		return nil, info, fmt.Errorf("apikeys: %s: %w", f.path, err)
	}
	return set, info, nil
}
