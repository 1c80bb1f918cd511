package journal

import (
	"fmt"
	"runtime/debug"
)

// Every function that touches the mapping defers recovered with the setting that it has
// replaced:
//
//	defer j.recovered(debug.SetPanicOnFault(true), &err)

// guard calls a function that touches the mapping, and returns the error if that faults.
func (j *Journal) guard(touch func()) (err error) {
	if j.closed.Load() {
		return ErrClosed
	}
	defer j.recovered(debug.SetPanicOnFault(true), &err)
	touch()
	return nil
}

// recovered is deferred. It restores the setting of what is done on faults, and sets err if
// there was one.
func (j *Journal) recovered(before bool, err *error) {
	p := recover()
	debug.SetPanicOnFault(before)
	if p != nil {
		*err = j.fault(p)
	}
}

// fault notes that the journal is broken, if a panic is of a fault in the mapping, and panics
// again if it is another.
func (j *Journal) fault(p any) error {
	at, ok := p.(interface{ Addr() uintptr })
	if !ok || !j.mem.holds(at.Addr()) {
		panic(p)
	}
	if j.closed.Load() {
		return ErrClosed
	}
	return j.breakWith("access to the mapped file failed: it was truncated, or its disk is full or defective")
}

// breakWith notes why the journal can't be used any more, and returns that as an error.
func (j *Journal) breakWith(why string) error {
	err := fmt.Errorf("journal %q: %s", j.path, why)
	j.broken.CompareAndSwap(nil, &err)
	j.writing.Store(nil)
	return *j.broken.Load()
}

// Err returns why the journal can't be used any more, or nil. Adds fail from then on. To try
// again, close it and open another.
func (j *Journal) Err() error {
	if err := j.broken.Load(); err != nil {
		return *err
	}
	if j.closed.Load() {
		return ErrClosed
	}
	return nil
}
