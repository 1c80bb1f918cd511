package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
)

// A filter knows the keys that may have been charged. It is a blocked Bloom filter: the bits of one key lie
// in one cache line (https://algo2.iti.kit.edu/documents/cacheefficientbloomfilters-jea.pdf). Keys are
// hashes, so their own bits select those of the filter.
//
// With 16 bits per key, 7 of which are set, about one of 500 new keys seems to be an old one. A filter with
// more keys than its capacity errs more often, until another one replaces it.
type filter struct {
	lines    []filterLine // a power of two
	keys     atomic.Int64 // about the number of added keys
	filled   int64        // keys when the filter came into use
	capacity int64
}

type filterLine [8]atomic.Uint64

const (
	filterBits = 16 // per key
	filterSets = 7  // bits set by a key, each selected by 9 bits of the key

	// The capacities of the first filter, which takes 512 KiB, and of the next ones at least.
	firstFilter = 1 << 18
	minFilter   = 1 << 20
)

// newFilter returns an empty filter with at least a capacity.
func newFilter(capacity int64) *filter {
	lines := 1
	for int64(lines)*512 < capacity*filterBits {
		lines *= 2
	}
	return &filter{lines: make([]filterLine, lines), capacity: int64(lines) * 512 / filterBits}
}

// bits returns the line of a key of a limit, and the bits that it sets there.
func (f *filter) bits(id storage.LimitID, key storage.Key) (line *filterLine, bits uint64) {
	const spread = 0x9E3779B97F4A7C15 // 2^64 over the golden ratio
	first := (binary.NativeEndian.Uint64(key[:8]) ^ uint64(id)) * spread
	return &f.lines[first>>20&uint64(len(f.lines)-1)], binary.NativeEndian.Uint64(key[8:]) ^ first
}

func (f *filter) add(id storage.LimitID, key storage.Key) {
	line, bits := f.bits(id, key)
	added := false
	for range filterSets {
		word, bit := &line[bits>>6&7], uint64(1)<<(bits&63)
		if word.Load()&bit == 0 {
			word.Or(bit)
			added = true
		}
		bits >>= 9
	}
	if added {
		f.keys.Add(1)
	}
}

// mayHave reports whether a key may have been added.
func (f *filter) mayHave(id storage.LimitID, key storage.Key) bool {
	line, bits := f.bits(id, key)
	for range filterSets {
		if line[bits>>6&7].Load()&(1<<(bits&63)) == 0 {
			return false
		}
		bits >>= 9
	}
	return true
}

// filters are the current filter, and the one that will replace it once it has all keys.
//
// Invariant: both have all keys charged since the period began, except for keys that a goroutine is about
// to add after it has written their records to the journal. It adds them before any call can ask for the
// same keys.
type filters struct {
	current, next atomic.Pointer[filter] // nil if there is none
}

// add adds a charged key. Its record must be in the journal, or its transaction committed.
func (fs *filters) add(id storage.LimitID, key storage.Key) {
	if next := fs.next.Load(); next != nil { // first, because it may become the current one
		next.add(id, key)
	}
	if current := fs.current.Load(); current != nil {
		current.add(id, key)
	}
}

// use replaces the current filter by one that has all keys.
func (fs *filters) use(f *filter) {
	f.filled = f.keys.Load()
	fs.current.Store(f)
}

// isNew reports whether a key was never charged.
func (fs *filters) isNew(id storage.LimitID, key storage.Key) bool {
	current := fs.current.Load()
	return current != nil && !current.mayHave(id, key)
}

// due returns the capacity of another filter that is needed, or 0. It depends on the number of keys kept,
// not on the number that have come and expired.
func (fs *filters) due() int64 {
	current := fs.current.Load()
	switch {
	case current == nil:
		return firstFilter
	case current.keys.Load() > current.capacity:
		return max(minFilter, 2*current.filled)
	}
	return 0
}

// fillFilter adds all keys in the database and the journal to a filter. Calls that charge other keys
// meanwhile add them to it as well: after the journal's segment is sealed, all writers of later records
// see the filter.
func (k *keeper) fillFilter(a *alone, f *filter) error {
	a.journal.Seal()
	for _, segment := range a.journal.Segments(a.folded.Load()) {
		if !segment.Sealed() {
			continue
		}
		_, err := segment.Read(0, segment.Len(),
			func(_ int, r *journal.Record) { f.add(storage.LimitID(r.Limit), r.Key) })
		if err != nil {
			return err
		}
	}
	c, err := k.options.dial(sideCache)
	if err != nil {
		return err
	}
	defer c.close()
	for _, table := range filterTables {
		if err := k.fillFrom(a, f, c, table.query, table.columns); err != nil {
			return err
		}
	}
	return nil
}

// fillFrom adds the keys of a table, step by step, for as long as the period lasts.
func (k *keeper) fillFrom(a *alone, f *filter, c *conn, query string, columns int) error {
	next, err := c.prepare(query, columns, columns)
	if err != nil {
		return err
	}
	last := []driver.Value{int64(math.MinInt64), int64(math.MinInt64), []byte{}}[3-columns:]
	last[0] = int64(math.MinInt64)
	for more := true; more; {
		more = false
		next.bind(0, last...)
		err := next.each(func(row []driver.Value) error {
			more = true
			copy(last, row)
			key, ok := row[columns-1].([]byte)
			if !ok || len(key) != len(storage.Key{}) {
				return nil // a damaged row
			}
			f.add(storage.LimitID(row[0].(int64)), storage.Key(key))
			return nil
		})
		if err != nil {
			return err
		}
		if k.periods.alone.Load() != a || isDone(k.stop) {
			return storage.ErrClosed
		}
		k.folds.foldSome(a, true) // this goroutine also folds
	}
	return nil
}

// isDone reports whether a channel is closed.
func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// filterTables are queries for the next keys after one, as many as a step reads.
var filterTables = []struct {
	query   string
	columns int // the first is the limit, the last the key
}{
	{`SELECT limit_id, window, key FROM counters WHERE (limit_id, window, key) > (?, ?, ?) GROUP BY limit_id, window, key
		ORDER BY limit_id, window, key LIMIT 1000`, 3},
	{`SELECT limit_id, key FROM buckets WHERE (limit_id, key) > (?, ?) ORDER BY limit_id, key LIMIT 1000`, 2},
}
