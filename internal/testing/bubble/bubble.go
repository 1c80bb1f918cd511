// Package bubble runs tests in virtual time, as testing/synctest does, and works with the race
// detector.
//
// In Go 1.26, the race detector attributes all timers of a bubble to one thread. If two processors
// access channels of such timers at the same time, it crashes the process ("SIGSEGV" in
// maybeRunChan, or "ThreadSanitizer: CHECK failed"). On one processor that doesn't happen, and
// races are still found: they are unsynchronized accesses, not simultaneous ones.
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
	processors int // GOMAXPROCS without them
)

// Test is [synctest.Test]. With the race detector it uses only one processor.
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
