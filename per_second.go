package tally

import (
	"sync"
	"time"
)

// perSecond bounds how often something is done in a second. The zero value is ready for use,
// by any number of goroutines.
type perSecond struct {
	mu      sync.Mutex
	second  int64 // guarded by mu: the second of the last time, since the Unix epoch
	done    int   // guarded by mu: how often in that second
	omitted int64 // guarded by mu: how often it was not admitted since takeOmitted
}

// admits reports whether it may be done once more in the second of now, and counts it. most
// is how often it may be.
func (b *perSecond) admits(now time.Time, most int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if second := now.Unix(); second != b.second {
		b.second, b.done = second, 0
	}
	if b.done >= most {
		b.omitted++
		return false
	}
	b.done++
	return true
}

// takeOmitted returns how often it was not admitted since the last call.
func (b *perSecond) takeOmitted() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	omitted := b.omitted
	b.omitted = 0
	return omitted
}
