package sqlite

import "sync/atomic"

// writerLock is a lock whose holder can find out that somebody waits for it, who may keep
// requests waiting. It is a channel, because a holder may sleep: in a bubble of [testing/synctest]
// no time passes while somebody waits for a mutex.
type writerLock struct {
	held    chan struct{} // holds one while it is locked
	waiting atomic.Int32  // those in Lock
}

// init prepares the lock. It is called once, before all others.
func (l *writerLock) init() { l.held = make(chan struct{}, 1) }

// lockPatiently locks it, for work that no request waits for.
func (l *writerLock) lockPatiently() { l.held <- struct{}{} }

// Lock locks it.
func (l *writerLock) Lock() {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	l.held <- struct{}{}
}

// TryLock locks it, and reports whether that was possible at once.
func (l *writerLock) TryLock() bool {
	select {
	case l.held <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock unlocks it.
func (l *writerLock) Unlock() { <-l.held }

// wanted reports whether anybody waits for the lock who isn't patient.
func (l *writerLock) wanted() bool { return l.waiting.Load() > 0 }
