package rivals

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkDecide runs every contender at each point of the grid, one after the
// other, so that what is compared is measured at nearly one time.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 100_000, 1_000_000} {
		keys := addresses(n)
		for _, allowed := range []bool{true, false} {
			for _, c := range contenders {
				b.Run(fmt.Sprintf("%s/keys=%d/%s", outcome(allowed), n, c.name), func(b *testing.B) {
					benchmark(b, c, keys, allowed)
				})
			}
		}
	}
}

func outcome(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "refused"
}

// amount returns a limit that is never reached, or is with the second request.
func amount(keys int, allowed bool) int64 {
	switch {
	case !allowed:
		return 1
	case keys == 1:
		return 1 << 40
	default:
		return 1 << 20
	}
}

// addresses returns n texts like those of clients' addresses.
func addresses(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%d.%d.%d.%d", 100+i>>24, i>>16&255, i>>8&255, i&255)
	}
	return keys
}

// benchmark measures decisions about keys that were seen twice before.
func benchmark(b *testing.B, c contender, keys []string, allowed bool) {
	decide := c.start(b, amount(len(keys), allowed), keys)
	warmUp(decide, len(keys))
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		wrong := 0
		for i := 0; b.Loop(); i++ {
			if decide(scattered(i, len(keys))) != allowed {
				wrong++
			}
		}
		expectNone(b, wrong, allowed)
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		var wrong, start atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			for i := int(start.Add(1_000_003)); pb.Next(); i++ {
				if decide(scattered(i, len(keys))) != allowed {
					wrong.Add(1)
				}
			}
		})
		expectNone(b, int(wrong.Load()), allowed)
	})
}

// warmUp asks for every key twice, from many goroutines, because those that a
// store must be asked for can share a transaction.
func warmUp(decide func(i int) bool, keys int) {
	const callers = 256
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := caller; i < keys; i += callers {
				decide(i)
				decide(i)
			}
		})
	}
	wg.Wait()
}

// scattered returns the i-th key to ask for: all keys come in turn, far from one
// another in memory.
func scattered(i, keys int) int { return i * 7919 % keys }

func expectNone(b *testing.B, wrong int, allowed bool) {
	b.Helper()
	if wrong > 0 {
		b.Fatalf("%d of the requests were not %s", wrong, outcome(allowed))
	}
}
