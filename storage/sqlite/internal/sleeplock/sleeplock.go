// Package sleeplock has a lock for those who sleep while they hold it. In a bubble of [testing/synctest]
// no time passes while somebody waits for a [sync.Mutex]: a holder who sleeps would never wake up.
package sleeplock

// Lock is a lock. It is a channel, in which time passes for those who wait.
type Lock chan struct{} // holds one while it is locked

// New returns a Lock that nobody holds.
func New() Lock { return make(Lock, 1) }

// Lock locks it.
func (l Lock) Lock() { l <- struct{}{} }

// TryLock locks it, and reports whether that was possible at once.
func (l Lock) TryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock unlocks it.
func (l Lock) Unlock() { <-l }
