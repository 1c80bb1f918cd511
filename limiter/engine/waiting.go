package engine

import "sync"

// waiting counts the decisions that may wait for a batch.
type waiting struct {
	mu    sync.Mutex
	ended bool // guarded by mu: none begins to wait any more
	count sync.WaitGroup
}

// begin counts one more, which must be followed by leave, if any may still begin.
func (w *waiting) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.count.Add(1)
	}
	return !w.ended
}

func (w *waiting) leave() { w.count.Done() }

// end lets none begin any more, and returns a channel that is closed when all have
// left.
func (w *waiting) end() (over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	left := make(chan struct{})
	go func() {
		w.count.Wait()
		close(left)
	}()
	return left
}
