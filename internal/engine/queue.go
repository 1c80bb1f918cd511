package engine // store

import (
	"math"
	"sync"
)

// queue holds the open batch: the one that the committer takes next.
type queue struct {
	mu      sync.Mutex
	batch   *batch        // guarded by mu; nil if nothing waits
	quiet   bool          // guarded by mu: the committer need not hurry to take the open batch
	number  uint64        // guarded by mu: of the last batch
	hurried uint64        // guarded by mu: the number of the last batch when hurry was called
	tasks   []*task       // guarded by mu: in the order of arrival
	closed  bool          // guarded by mu: the queue accepts nothing
	enough  int           // guarded by mu: the size that the committer waits for
	later   []postponed   // guarded by mu
	woken   chan struct{} // holds one token when there is work for the committer
	full    chan struct{} // holds one token when the batch is large enough
}

// join adds to the open batch, and returns that batch, or nil if the queue is
// closed.
func (q *queue) join(fill func(*batch)) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	if q.openLocked() || q.quiet {
		q.quiet = false
		q.wakeUp()
	}
	fill(q.batch)
	if q.batch.size() >= q.enough {
		put(q.full)
	}
	return q.batch
}

// openLocked makes an open batch if there is none, and reports whether it did.
func (q *queue) openLocked() bool {
	if q.batch != nil {
		return false
	}
	q.number++
	q.batch = &batch{number: q.number, done: make(chan struct{})}
	return true
}

// joinQuietly is join for entries that can wait until a call of join or hurry. It reports whether
// the queue is open.
func (q *queue) joinQuietly(fill func(*batch)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.quiet = q.openLocked() || q.quiet
	fill(q.batch)
	return true
}

// hurry makes the committer take entries that have waited quietly since the last call but one.
func (q *queue) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.quiet && q.batch.number == q.hurried {
		q.quiet = false
		q.wakeUp()
	}
	q.hurried = q.number
}

// takeTask returns the first task, or nil.
func (q *queue) takeTask() *task {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 {
		return nil
	}
	t := q.tasks[0]
	q.tasks = q.tasks[1:]
	return t
}

// forget removes a locked cell's entries from the open batch.
func (q *queue) forget(c cell) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batch.forget(c)
}

// cells returns the cells of the open batch.
func (q *queue) cells() []cell {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.batch.cells()
}

// wakeUp wakes the committer.
func (q *queue) wakeUp() { put(q.woken) }

// put puts a token into a channel that has room for one.
func put(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// takeDue is take if something in the open batch is urgent.
func (q *queue) takeDue() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.quiet {
		return nil
	}
	return q.takeLocked()
}

// take returns the open batch, or nil, and makes room for another.
func (q *queue) take() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked()
}

func (q *queue) takeLocked() *batch {
	b := q.batch
	q.batch, q.quiet, q.enough = nil, false, math.MaxInt
	select {
	case <-q.full:
	default:
	}
	return b
}

// await sets the size that is enough after a batch of size n, and reports whether the open batch is
// smaller. If entries arrived during the commit, there are more clients than batches have held so
// far.
func (q *queue) await(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := 0
	if q.batch != nil {
		waiting = q.batch.size()
		n *= 2
	}
	q.enough = n
	return n > 1 && waiting < n
}

// setClosed sets whether the queue is closed.
func (q *queue) setClosed(closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.quiet = closed, false
}
