package sqlite

import (
	"sync"
	"sync/atomic"
)

// writerLock is a lock whose holder can find out that somebody waits for it.
type writerLock struct {
	sync.Mutex
	waiting atomic.Int32
}

// Lock locks it.
func (l *writerLock) Lock() {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	l.Mutex.Lock()
}

// wanted reports whether anybody waits for the lock.
func (l *writerLock) wanted() bool { return l.waiting.Load() > 0 }
