package sqlite

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/sleeplock"
)

// writerLock is a lock whose holder can find out whether an impatient goroutine waits for it, one that
// requests may be waiting for.
type writerLock struct {
	held    sleeplock.Lock
	waiting atomic.Int32 // goroutines in Lock
}

// lockPatiently locks for work that no request waits for.
func (l *writerLock) lockPatiently() { l.held.Lock() }

// Lock locks for work that requests may wait for.
func (l *writerLock) Lock() {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	l.held.Lock()
}

// TryLock locks if that is possible at once, and reports whether it did.
func (l *writerLock) TryLock() bool { return l.held.TryLock() }

// Unlock unlocks.
func (l *writerLock) Unlock() { l.held.Unlock() }

// wanted reports whether an impatient goroutine waits for the lock.
func (l *writerLock) wanted() bool { return l.waiting.Load() > 0 }
