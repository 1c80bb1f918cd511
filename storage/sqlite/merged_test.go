package sqlite

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
)

// someSlots returns units of random rows. Some rows occur several times.
func someSlots(n, keys int) []foldedSlot {
	slots := make([]foldedSlot, n)
	for i := range slots {
		key := rand.N(keys)
		slots[i] = foldedSlot{limit: storage.LimitID(rand.N(3)), window: rand.Int64N(3), slot: rand.Int64N(4), units: rand.Int64N(100) - 20}
		for j := range slots[i].key {
			slots[i].key[j] = byte(key * (j + 7) >> (j % 3))
		}
	}
	return slots
}

// The units of each row are added up, and the rows have the order of the table.
func TestUnitsAreMerged(t *testing.T) {
	type row struct {
		limit        storage.LimitID
		window, slot int64
		key          storage.Key
	}
	for _, n := range []int{0, 1, 2, 100, 20_000} {
		for _, keys := range []int{1, 50, 1 << 30} {
			slots, want := someSlots(n, keys), make(map[row]int64)
			for _, s := range slots {
				want[row{s.limit, s.window, s.slot, s.key}] += s.units
			}
			got := merged(slots)
			for _, s := range got {
				place := row{s.limit, s.window, s.slot, s.key}
				if units, ok := want[place]; !ok || units != s.units {
					t.Fatalf("%d of %d keys: %+v has %d units, want %d", n, keys, place, s.units, units)
				}
				delete(want, place)
			}
			if len(want) > 0 {
				t.Errorf("%d of %d keys: %d rows are missing", n, keys, len(want))
			}
			if !slices.IsSortedFunc(got, func(a, b foldedSlot) int {
				return cmp.Or(cmp.Compare(int64(a.limit), int64(b.limit)), cmp.Compare(a.window, b.window), bytes.Compare(a.key[:], b.key[:]), cmp.Compare(a.slot, b.slot))
			}) {
				t.Errorf("%d of %d keys: the rows are in no order", n, keys)
			}
		}
	}
}

func BenchmarkMerged(b *testing.B) {
	from := someSlots(patientRows, 1<<30)
	work := make([]foldedSlot, len(from))
	for b.Loop() {
		copy(work, from)
		merged(work)
	}
}
