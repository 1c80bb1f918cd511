package textfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// LookEvery is how often a file is looked at.
const LookEvery = time.Second

// Options say what a file is and how it is read.
type Options[T any] struct {
	// Prefix begins the text of each error, such as "apikeys". Required.
	Prefix string
	// Path is where the file is. Required.
	Path string
	// MaxSize is the most bytes that the file may have. Required.
	MaxSize int64
	// Parse reads a text. Required.
	Parse func(text []byte) (*T, error)
	// Optional is set if a file that is gone is the same as an empty one. Otherwise what was
	// in force stays in force.
	Optional bool
	// Changed is called once for each change of the file, with the value that is in force
	// now, and why that is still the old one, or nil. It is called by the goroutine that
	// called Look or Fresh. Required.
	Changed func(*T, error)
}

// File is a file that is read again when it has changed. It may be used from any number of
// goroutines, and need not be closed.
type File[T any] struct {
	options Options[T]
	start   time.Time

	value   atomic.Pointer[T]
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

// Open reads a file. If it does not exist, its value is nil until it does.
func Open[T any](options Options[T]) (*File[T], error) {
	f := &File[T]{options: options, start: time.Now()}
	value, info, err := f.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f.value.Store(value)
	f.seen = info
	return f, nil
}

// Path returns where the file is.
func (f *File[T]) Path() string { return f.options.Path }

// Trouble returns why the value in force is not that of the file, or nil.
func (f *File[T]) Trouble() *Trouble { return f.trouble.Load() }

// Value returns the value in force, or nil if there has never been a file. It costs one
// atomic load.
func (f *File[T]) Value() *T { return f.value.Load() }

// Fresh returns the value in force, and looks at the file if nobody has for [LookEvery].
func (f *File[T]) Fresh() *T {
	if time.Since(f.start)-time.Duration(f.looked.Load()) >= LookEvery {
		f.Look()
	}
	return f.value.Load()
}

// Look reads the file again if it has changed. While another goroutine does, it returns at
// once: a disk that hangs holds up one caller, not all.
func (f *File[T]) Look() {
	if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	f.lookLocked()
}

// Reload is Look, but waits for another goroutine that is looking at the file. What is in the
// file when Reload is called is in force when it returns.
func (f *File[T]) Reload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookLocked()
}

func (f *File[T]) lookLocked() {
	now := time.Since(f.start)
	defer func() { f.looked.Store(int64(now)) }()
	info, err := os.Stat(f.options.Path)
	changed := err == nil && !same(info, f.seen) || err != nil && f.seen != nil
	if !changed && !f.unread {
		return
	}
	value, info, err := f.read()
	var noAccess *fs.PathError
	f.seen, f.unread = info, errors.As(err, &noAccess)
	was := f.trouble.Load()
	switch {
	case err == nil:
		f.value.Store(value)
		f.trouble.Store(nil)
	case was == nil:
		f.trouble.Store(&Trouble{time.Now(), err})
	case changed || was.Err.Error() != err.Error():
		f.trouble.Store(&Trouble{was.Since, err})
	default:
		return // as was told
	}
	f.options.Changed(f.value.Load(), err)
}

// read reads the file, and returns which version of it that was, as far as it got.
func (f *File[T]) read() (*T, fs.FileInfo, error) {
	o := &f.options
	text, info, err := Read(o.Path, o.MaxSize)
	if errors.Is(err, fs.ErrNotExist) && o.Optional {
		text, err = nil, nil
	}
	if err != nil {
		return nil, info, fmt.Errorf("%s: %w", o.Prefix, err)
	}
	value, err := o.Parse(text)
	if err != nil {
		return nil, info, fmt.Errorf("%s: %s: %w", o.Prefix, o.Path, err)
	}
	return value, info, nil
}
