package sqlite

import (
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/sleeplock"
)

// writerLock is a lock whose holder can find out that somebody waits for it, who may keep
// requests waiting.
type writerLock struct {
	held    sleeplock.Lock
	waiting atomic.Int32 // goroutines in Lock
}

// lockPatiently locks it, for work that no request waits for.
func (l *writerLock) lockPatiently() { l.held.Lock() }

// Lock locks it.
func (l *writerLock) Lock() {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	l.held.Lock()
}

// TryLock locks it, and reports whether that was possible at once.
func (l *writerLock) TryLock() bool { return l.held.TryLock() }

// Unlock unlocks it.
func (l *writerLock) Unlock() { l.held.Unlock() }

// wanted reports whether an impatient goroutine waits for the lock.
func (l *writerLock) wanted() bool { return l.waiting.Load() > 0 }
