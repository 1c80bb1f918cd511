// Package sleeplock has a lock whose holders may sleep. In a bubble of [testing/synctest] time doesn't pass while a
// goroutine waits for a [sync.Mutex], so a sleeping holder would never wake up.
package sleeplock

// Lock is a lock. It is a channel, so that time passes while goroutines wait for it.
type Lock chan struct{} // holds one while it is locked

// New returns a free Lock.
func New() Lock { return make(Lock, 1) }

// Lock locks it.
func (l Lock) Lock() { l <- struct{}{} }

// TryLock locks it if that is possible at once, and reports whether it did.
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
