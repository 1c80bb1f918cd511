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

// lookEvery is the interval of checking a file for changes.
const lookEvery = time.Second

// Options describe a file and its format.
type Options[T any] struct {
	// Prefix is the prefix of all errors, such as "apikeys". Required.
	Prefix string
	// Path is the path of the file. Required.
	Path string
	// MaxSize is the most bytes that the file may have. Required.
	MaxSize int64
	// Parse parses a text. Required.
	Parse func(text []byte) (*T, error)
	// Required is set if [Open] fails without a file.
	Required bool
	// Optional is set if a missing file is equivalent to an empty one. Otherwise the previous value
	// stays in force.
	Optional bool
	// Changed is called once for each change of the file, with the value in force, and an error if
	// that is still the previous value. It is called by the goroutine that called Look or Fresh.
	// Required.
	Changed func(*T, error)
}

// File is a file that is read again after it changes. It may be used from any number of goroutines,
// and need not be closed.
type File[T any] struct {
	options Options[T]
	start   time.Time

	value   atomic.Pointer[T]
	trouble atomic.Pointer[Trouble] // written under mu; nil while the file is valid
	looked  atomic.Int64            // time of the last check, since start

	mu     sync.Mutex
	seen   fs.FileInfo // guarded by mu: the file when last read; nil if there was none
	unread bool        // guarded by mu: it could not be read, which may change without a change of the file
}

// Trouble is the reason why a file can't be used, and since when.
type Trouble struct {
	Since time.Time
	Err   error
}

// Open reads a file. If it does not exist and isn't required, its value is nil until it does.
func Open[T any](options Options[T]) (*File[T], error) {
	f := &File[T]{options: options, start: time.Now()}
	value, info, err := f.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if value == nil && options.Required {
		return nil, fmt.Errorf("%s: there is no file %q", options.Prefix, options.Path)
	}
	f.value.Store(value)
	f.seen = info
	return f, nil
}

// Path returns the path of the file.
func (f *File[T]) Path() string { return f.options.Path }

// Trouble returns why the value in force is not the file's, or nil.
func (f *File[T]) Trouble() *Trouble { return f.trouble.Load() }

// Value returns the value in force, or nil if there has never been a file. It costs one
// atomic load.
func (f *File[T]) Value() *T { return f.value.Load() }

// Fresh returns the value in force. It checks the file if the last check is at least a second
// ago.
func (f *File[T]) Fresh() *T {
	if time.Since(f.start)-time.Duration(f.looked.Load()) >= lookEvery {
		f.Look()
	}
	return f.value.Load()
}

// Look reads the file again if it has changed. While another goroutine does that, it returns at
// once: a hanging disk blocks one caller, not all.
func (f *File[T]) Look() {
	if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	f.lookLocked()
}

// Reload is Look, but waits for another goroutine that is reading the file. When it returns, the
// content at the time of the call is in force.
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
		return // already reported
	}
	f.options.Changed(f.value.Load(), err)
}

// read reads the file, and returns its version, even after an error.
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
