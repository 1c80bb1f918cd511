package engine

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A tally counts few events exactly and many well enough, and then writes rarely.
func TestTally(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		var counting tally
		writes := 0
		for n := int64(1); n <= 1<<21; n++ {
			before := counting.count()
			counting.addBy(random.Uint32)
			if counting.count() != before {
				writes++
			}
			off := float64(counting.count()-n) / float64(n)
			if n <= exactTally && off != 0 || math.Abs(off) > 0.06 { // five times its standard error
				t.Fatalf("seed %d: %d after %d events", seed, counting.count(), n)
			}
		}
		if writes > 1<<16 {
			t.Errorf("seed %d: written %d times", seed, writes)
		}
	}
}

func TestTallyEndsAtWhatFits(t *testing.T) {
	var counting tally
	counting.counted.Store(math.MaxUint32 - 1<<22)
	for range 100 {
		before := counting.count()
		if counting.addBy(func() uint32 { return 0 }); counting.count() < before {
			t.Fatalf("%d after %d", counting.count(), before)
		}
	}
}
