package limiter

import (
	"maps"
	"testing"
)

// FuzzClaimKnown compares ClaimKnown with a claim on the state behind the lease.
func FuzzClaimKnown(f *testing.F) {
	f.Add(uint8(0), int64(100), int64(60), int64(40), int64(10), int64(30), int64(5), int64(1), int64(3), int64(16), int64(45), true)
	f.Add(uint8(1), int64(5), int64(0), int64(5), int64(0), int64(5), int64(0), int64(1), int64(1), int64(0), int64(0), false)
	f.Add(uint8(2), int64(9), int64(70), int64(4), int64(2), int64(1), int64(3), int64(2), int64(2), int64(2), int64(0), true)
	f.Fuzz(func(t *testing.T, algorithm uint8, amount, later, used, units, spent, part, least, want, extra, ahead int64, gives bool) {
		p := Params{Algorithm: Algorithm(algorithm % 3), Amount: 1 + abs(amount)%1000, Window: 60e9}
		l, err := New(p)
		if err != nil {
			t.Fatal(err)
		}
		const begun = int64(1e18)
		now := begun + later%150*1e9
		known := Lease{At: begun, Used: abs(used) % 2000, Part: abs(part) % int64(p.Window)}
		if l.CountsSlots() {
			known.At, known.Part = l.Slot(begun), 0
		}
		known.Units = min(abs(units)%2000, known.Used)
		known.Spent = min(abs(spent)%2000, known.Used-known.Units)
		c := Claim{Now: now, Min: abs(least) % 20, Want: abs(want) % 20, Extra: abs(extra) % 100, Ahead: abs(ahead) % 60}
		if gives {
			c.Return = known
		}
		state := known.State(&l)
		want1 := l.Claim(&state, c)
		want1.Retry = 0
		grant, changes := l.ClaimKnown(known, c)
		grant.Retry = 0
		if grant != want1 {
			t.Fatalf("%+v of %+v: granted %+v, want %+v", c, known, grant, want1)
		}
		if changes.Bucket != state.Bucket {
			t.Fatalf("%+v of %+v: the bucket becomes %+v, want %+v", c, known, changes.Bucket, state.Bucket)
		}
		seen := make(map[int64]bool)
		for _, slot := range changes.Slots {
			if slot.Used != 0 && seen[slot.Index] {
				t.Fatalf("two changes of slot %d: %+v", slot.Index, changes)
			}
			seen[slot.Index] = slot.Used != 0
		}
		applied := known.State(&l)
		applied.Apply(&l, changes)
		if before, after := unitsOf(applied), unitsOf(state); applied.Bucket != state.Bucket || !maps.Equal(before, after) {
			t.Fatalf("%+v of %+v: the changes make %+v, want %+v", c, known, applied, state)
		}
	})
}

func abs(n int64) int64 { return max(n, -n, 0) }

// unitsOf returns the units of a state by slot, without empty slots.
func unitsOf(s State) map[int64]int64 {
	units := make(map[int64]int64)
	for _, slot := range s.Slots {
		if slot.Used != 0 {
			units[slot.Index] = slot.Used
		}
	}
	return units
}

func BenchmarkClaimKnown(b *testing.B) {
	l, err := New(Params{Amount: 1000, Window: 60e9})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var known Lease
	for i := range b.N {
		g, _ := l.ClaimKnown(known, Claim{Now: 1e18 + int64(i)*1e6, Min: 1, Want: 1})
		known = g.Lease
		if known.Units == 0 {
			known = Lease{}
		}
		known.Units, known.Spent = 0, known.Units
	}
}
