package engine

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// tally counts events, also very many of them by all processors at a time. It is exact up to
// exactTally. Beyond, it counts one event in a few for all of them, by chance, so that few
// write to the memory that all read. Its standard error is less than 1.2 % then. It ends at what fits.
type tally struct{ counted atomic.Uint32 }

// exactTally is the number of events up to which a tally is exact.
const exactTally = 1 << 12

// add counts one event.
func (t *tally) add() { t.addBy(rand.Uint32) }

// addBy counts one event by a source of chance.
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

// count returns how many events were counted.
func (t *tally) count() int64 { return int64(t.counted.Load()) }
