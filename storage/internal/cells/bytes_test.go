package cells

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/caddy-tally/caddy-tally/limiter"
)

func TestStateAsBytes(t *testing.T) {
	for _, want := range []limiter.State{
		{},
		{Slots: []limiter.Slot{{Index: 0, Used: 1}}},
		{Slots: []limiter.Slot{{Index: -3, Used: 1}, {Index: 1, Used: limiter.Clamp(math.MaxInt64)}, {Index: 1 << 40, Used: 7}}},
		{Slots: []limiter.Slot{{Index: math.MinInt64, Used: 1}, {Index: math.MaxInt64, Used: 2}}},
		{Bucket: limiter.Bucket{At: math.MinInt64, Units: 5, Part: 9}},
		{Bucket: limiter.Bucket{At: 1_800_000_000e9, Units: math.MaxInt64, Part: math.MaxInt64}},
	} {
		written := (&State{State: want}).Append(nil)
		got := State{State: limiter.State{Slots: []limiter.Slot{{Index: 99, Used: 99}}, Bucket: limiter.Bucket{At: 99}}}
		got.Parse(written)
		if len(got.Slots) == 0 {
			got.Slots = nil
		}
		if !reflect.DeepEqual(got.State, want) {
			t.Errorf("%+v comes back as %+v", want, got.State)
		}
	}
}

// What is read from damaged bytes is a state, and is written as one.
func FuzzParse(f *testing.F) {
	f.Add([]byte{asSlots, 1, 2, 3, 4})
	f.Add([]byte{asBucket, 0xff})
	f.Add([]byte{3})
	f.Fuzz(func(t *testing.T, from []byte) {
		var s, again State
		s.Parse(from)
		ascending := slices.IsSortedFunc(s.Slots, func(a, b limiter.Slot) int {
			if a.Index < b.Index {
				return -1
			}
			return 1
		})
		if !ascending || slices.ContainsFunc(s.Slots, func(slot limiter.Slot) bool { return slot.Used <= 0 }) {
			t.Fatalf("%x is read as %+v", from, s)
		}
		again.Parse(s.Append(nil))
		if !slices.Equal(s.Slots, again.Slots) || s.Bucket != again.Bucket {
			t.Fatalf("%x is read as %+v, and that as %+v", from, s, again)
		}
	})
}
