package engine

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// tally counts events, even very many of them on all processors at a time. It is exact up to
// exactTally. Beyond, it counts a random sample with a higher weight, so that few events write to
// shared memory. Its standard error is then less than 1.2 %. It stops at the largest value that
// fits.
type tally struct{ counted atomic.Uint32 }

// exactTally is the number of events up to which a tally is exact.
const exactTally = 1 << 12

// add counts one event.
func (t *tally) add() { t.addBy(rand.Uint32) }

// addBy counts one event with a source of random numbers.
func (t *tally) addBy(random func() uint32) {
	counted := t.counted.Load()
	if counted < exactTally {
		t.counted.Add(1)
		return
	}
	step := uint32(1) << (bits.Len32(counted/exactTally) - 1) // the power of two up to that part
	if random()%step == 0 && counted < math.MaxUint32-2*step {
		t.counted.Add(step)
	}
}

// count returns the number of events.
func (t *tally) count() int64 { return int64(t.counted.Load()) }
