package engine

import (
	"slices"
	"sync"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// offense is one that the store has yet to record.
type offense struct {
	cell *cell
	reputation.Offense
}

// offenses waits for the committer. While the store can't be used it fills up,
// and then what comes is known to memory only.
type offenses struct {
	mu      sync.Mutex
	waiting []offense // guarded by mu
}

const (
	maxOffenses  = 1 << 14 // that wait
	offenseBatch = 256     // that are put to the store in one transaction
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

// first returns the first of those that wait, which stay, up to some number.
func (os *offenses) first(most int) []offense {
	os.mu.Lock()
	defer os.mu.Unlock()
	return slices.Clone(os.waiting[:min(len(os.waiting), most)])
}

// remove takes the first n away.
func (os *offenses) remove(n int) {
	os.mu.Lock()
	defer os.mu.Unlock()
	os.waiting = slices.Delete(os.waiting, 0, n)
}

// drop removes the offenses of a client, and returns how many there were.
func (os *offenses) drop(client *cell) int {
	os.mu.Lock()
	defer os.mu.Unlock()
	before := len(os.waiting)
	os.waiting = slices.DeleteFunc(os.waiting, func(o offense) bool { return o.cell == client })
	return before - len(os.waiting)
}
