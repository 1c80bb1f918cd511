package sqlite

import (
	"encoding/binary"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
)

// A filter doesn't grow with expired keys, only with present ones.
func TestFiltersGrowWithTheKeysThatAreKept(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: millions of keys, one after the other")
	}
	var fs filters
	var key storage.Key
	come := func(keys int64) {
		for range keys {
			binary.NativeEndian.PutUint64(key[:], binary.NativeEndian.Uint64(key[:])+0x9E3779B97F4A7C15)
			binary.NativeEndian.PutUint64(key[8:], binary.NativeEndian.Uint64(key[8:])+0xBF58476D1CE4E5B9)
			fs.add(1, key)
		}
	}
	for round, want := range []int64{firstFilter, minFilter, minFilter} {
		capacity := fs.due()
		if capacity != want {
			t.Fatalf("round %d: the filter is made for %d keys; expected %d", round, capacity, want)
		}
		fs.use(newFilter(capacity))
		come(capacity + capacity/8)
	}

	kept := newFilter(minFilter)
	fs.next.Store(kept)
	come(minFilter)
	fs.use(kept)
	come(minFilter / 2)
	if capacity := fs.due(); capacity < minFilter*3/2 || capacity > 4*minFilter {
		t.Errorf("with %d keys that are kept, a filter is made for %d", minFilter, capacity)
	}
}
