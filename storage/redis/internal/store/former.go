package store

import (
	"slices"
	"sync"
	"sync/atomic"
)

// former has the records of the stores that an opener has opened.
type former struct {
	losses atomic.Int64 // how often writes of one were lost
	leaves atomic.Int64 // how often it stayed open whether a call of one took effect

	mu      sync.Mutex
	clock   clock    // guarded by mu: of the store that was told the time last
	records []record // guarded by mu: of closed stores
}

// record is that of a store that is closed. Calls of it may still be on their way, and have no
// effect once the record is removed.
type record struct {
	key string
	seq int64 // of the last call that was acknowledged
}

// maxRecords is how many records are removed when a server comes back. Others expire.
const maxRecords = 64

func (f *former) add(r record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, r)
	if len(f.records) > maxRecords { // it is not looked for any more
		f.records = slices.Delete(f.records, 0, 1)
		f.leaves.Add(1)
	}
}

// keep keeps what a store knows of the time, for the next one: a server that comes back with another
// clock, or forgets the machines by it, doesn't take along the time.
func (f *former) keep(is clock) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock = is
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
