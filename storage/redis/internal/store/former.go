package store

import (
	"slices"
	"sync"
	"sync/atomic"
)

// former is what an opener knows of the stores that it has opened before.
type former struct {
	losses atomic.Int64 // how often a store lost writes
	leaves atomic.Int64 // how often the outcome of a call stayed unknown

	mu      sync.Mutex
	clock   clock    // guarded by mu: of the store that read the time last
	records []record // guarded by mu: of closed stores
}

// record is the server's record of a closed store. Calls of the store that are still on their way
// have no effect once the record is removed.
type record struct {
	key string
	seq int64 // of the last call that was acknowledged
}

// maxRecords is how many records are removed when a server comes back. The others expire.
const maxRecords = 64

func (f *former) add(r record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, r)
	if len(f.records) > maxRecords { // the oldest is not checked any more
		f.records = slices.Delete(f.records, 0, 1)
		f.leaves.Add(1)
	}
}

// keep keeps the clock of a store for the next one. So the time continues even if the server comes
// back with another clock, or without its records of machines.
func (f *former) keep(c clock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock = c
}

func (f *former) witness() clock {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clock
}

func (f *former) list() []record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.records)
}

func (f *former) remove(records []record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = slices.DeleteFunc(f.records, func(r record) bool { return slices.Contains(records, r) })
}
