package sqlite

import (
	"sync"
	"sync/atomic"
)

// writerLock is a lock whose holder can find out that somebody waits for it, who may keep
// requests waiting.
type writerLock struct {
	sync.Mutex
	waiting atomic.Int32 // those in Lock
}

// lockPatiently locks it, for work that no request waits for.
func (l *writerLock) lockPatiently() { l.Mutex.Lock() }

// Lock locks it.
func (l *writerLock) Lock() {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	l.Mutex.Lock()
}

// wanted reports whether anybody waits for the lock who isn't patient.
func (l *writerLock) wanted() bool { return l.waiting.Load() > 0 }
