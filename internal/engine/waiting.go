package engine

import "sync"

// waiting counts the decisions that may wait for a batch.
type waiting struct {
	mu    sync.Mutex
	ended bool // guarded by mu: no decision begins to wait any more
	count sync.WaitGroup
}

// begin counts a decision if any may still begin. It must then be followed by leave.
func (w *waiting) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.count.Add(1)
	}
	return !w.ended
}

func (w *waiting) leave() { w.count.Done() }

// end prevents further decisions from waiting, and returns a channel that is closed when all have
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
