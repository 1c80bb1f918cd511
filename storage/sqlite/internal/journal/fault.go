package journal

import (
	"fmt"
	"runtime/debug"
)

// Every function that touches the mapping defers recovered with the replaced setting:
//
//	defer j.recovered(debug.SetPanicOnFault(true), &err)

// guard calls a function that touches the mapping, and returns an error if it faults.
func (j *Journal) guard(touch func()) (err error) {
	if j.closed.Load() {
		return errClosed
	}
	defer j.recovered(debug.SetPanicOnFault(true), &err)
	touch()
	return nil
}

// recovered is deferred. It restores the setting for faults, and sets err after a fault.
func (j *Journal) recovered(before bool, err *error) {
	p := recover()
	debug.SetPanicOnFault(before)
	if p != nil {
		*err = j.fault(p)
	}
}

// fault marks the journal as broken if a panic is a fault in the mapping. Otherwise it panics again.
func (j *Journal) fault(p any) error {
	fault, ok := p.(interface{ Addr() uintptr })
	if !ok || !j.mem.holds(fault.Addr()) {
		panic(p)
	}
	if j.closed.Load() {
		return errClosed
	}
	return j.breakWith("access to the mapped file failed: it was truncated, or its disk is full or defective")
}

// breakWith marks the journal as broken, and returns the reason as an error.
func (j *Journal) breakWith(why string) error {
	err := fmt.Errorf("journal %q: %s", j.path, why)
	j.broken.CompareAndSwap(nil, &err)
	j.writing.Store(nil)
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
