package distinct

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
)

func hash(n int) uint64 { return xxhash.Sum64String(fmt.Sprint("value ", n)) }

// Estimates are within 5 standard errors. The values are always the same.
func TestCount(t *testing.T) {
	for _, n := range []int{0, 1, 2, 10, 100, 1000, 3000, 6000, 12_000, 100_000, 1_000_000} {
		var set Set
		for i := range n {
			set.Add(hash(i))
			set.Add(hash(i / 2)) // again
		}
		got := set.Take().Count()
		allowed := 5 * 0.023 * float64(n)
		if n <= 100 {
			allowed = float64(n) / 50
		}
		if math.Abs(float64(got)-float64(n)) > allowed {
			t.Errorf("%d values are estimated at %d, want at most %.0f more or less", n, got, allowed)
		}
		if left := set.Take(); left != nil {
			t.Errorf("after what it has seen was taken, a set says %d", left.Count())
		}
	}
}

// Merging the sketches of two sets gives the sketch of their union.
func TestMerge(t *testing.T) {
	for _, n := range []int{0, 1, 50, 1020, 1100, 5000} {
		var one, other, both Set
		for i := range n {
			one.Add(hash(i))
			other.Add(hash(i + n/2))
			both.Add(hash(i))
			both.Add(hash(i + n/2))
		}
		got, want := one.Take().Merge(other.Take()), both.Take()
		if !slices.Equal(got, want) || !slices.Equal(want.Merge(nil), want) || !slices.Equal(Sketch(nil).Merge(want), want) {
			t.Errorf("%d values: merged they are %d, want %d", n, got.Count(), want.Count())
		}
	}
}

// No value is lost that is added concurrently with Take.
func TestAddAndTakeTogether(t *testing.T) {
	var set Set
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 5000 {
				set.Add(hash(i*4 + g))
			}
		})
	}
	var all Sketch
	for range 20 {
		all = all.Merge(set.Take())
	}
	group.Wait()
	all = all.Merge(set.Take())
	var want Set
	for i := range 20_000 {
		want.Add(hash(i))
	}
	if want := want.Take(); !slices.Equal(all, want) {
		t.Errorf("got %d values, want %d", all.Count(), want.Count())
	}
}

// Any bytes are a valid sketch.
func FuzzSketch(f *testing.F) {
	f.Add([]byte(nil), []byte{1})
	f.Add([]byte{0xff, 0xff, 0, 0}, []byte{7, 7, 7})
	f.Add(make([]byte, registers), slices.Repeat([]byte{0xff}, registers))
	f.Add(slices.Repeat([]byte{maxRank}, registers), slices.Repeat([]byte{3}, 3*registers))
	f.Fuzz(func(t *testing.T, one, other []byte) {
		a, b := Sketch(one), Sketch(other)
		both := a.Merge(b)
		if len(both) > registers || both.Count() < 0 {
			t.Errorf("%d bytes of a sketch count %d", len(both), both.Count())
		}
		if !slices.Equal(both, b.Merge(a)) || !slices.Equal(both, both.Merge(a)) {
			t.Error("the order matters, or merging again")
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	hashes := make([]uint64, 1024)
	for i := range hashes {
		hashes[i] = rand.Uint64()
	}
	var set Set
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		set.Add(hashes[i%len(hashes)])
	}
}
