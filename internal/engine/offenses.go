package engine // store

import (
	"slices"
	"sync"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// offense is an offense that waits to be recorded in the store.
type offense struct {
	cell cell
	reputation.Offense
	stored chan struct{} // closed when the store has it, or never will; nil if nobody waits
}

// end ends the wait for the store.
func (o *offense) end() {
	if o.stored != nil {
		close(o.stored)
	}
}

// offenses waits for the committer. While the store can't be used it fills up, and further offenses
// are known to memory only.
type offenses struct {
	mu      sync.Mutex
	waiting []offense // guarded by mu
}

const (
	maxOffenses  = 1 << 14 // waiting
	offenseBatch = 256     // recorded in one transaction
)

func (os *offenses) add(o offense) (added bool) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if len(os.waiting) >= maxOffenses {
		return false
	}
	os.waiting = append(os.waiting, o)
	return true
}

// first returns copies of the first waiting offenses, at most most of them.
func (os *offenses) first(most int) []offense {
	os.mu.Lock()
	defer os.mu.Unlock()
	return slices.Clone(os.waiting[:min(len(os.waiting), most)])
}

// remove removes the first n offenses.
func (os *offenses) remove(n int) {
	os.mu.Lock()
	defer os.mu.Unlock()
	os.waiting = slices.Delete(os.waiting, 0, n)
}

// drop ends and removes the offenses of a client, and returns how many there were.
func (os *offenses) drop(client cell) int {
	os.mu.Lock()
	defer os.mu.Unlock()
	before := len(os.waiting)
	os.waiting = slices.DeleteFunc(os.waiting, func(o offense) bool {
		if o.cell != client {
			return false
		}
		o.end()
		return true
	})
	return before - len(os.waiting)
}
