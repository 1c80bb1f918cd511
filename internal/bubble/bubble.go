// Package bubble runs tests in virtual time, as testing/synctest does, and lets
// the race detector look on.
//
// Of Go 1.26, the race detector takes all timers of a bubble for one thread. Where
// two processors come upon channels of such timers at a time, it crashes the
// process ("SIGSEGV" in maybeRunChan, or "ThreadSanitizer: CHECK failed"). On one
// processor that doesn't happen, and races are found all the same: they are what
// is not synchronized, not what happens at a time.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

var (
	mu         sync.Mutex
	running    int // bubbles; guarded by mu, like the next
	processors int // that there are without them
)

// Test is [synctest.Test]. With the race detector there is only one processor
// while it runs.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if raceDetector {
		enter()
		defer leave()
	}
	synctest.Test(t, f)
}

func enter() {
	mu.Lock()
	defer mu.Unlock()
	if running++; running == 1 {
		processors = runtime.GOMAXPROCS(1)
	}
}

func leave() {
	mu.Lock()
	defer mu.Unlock()
	if running--; running == 0 {
		runtime.GOMAXPROCS(processors)
	}
}
