package engine // store

import "context"

// task is a function that one goroutine calls for another. The committer calls the tasks of its
// queue between two batches.
type task struct {
	do   func() error
	done chan struct{} // closed when err is final
	err  error
}

func newTask(do func() error) *task { return &task{do: do, done: make(chan struct{})} }

func (t *task) answer(err error) {
	t.err = err
	close(t.done)
}

// wait waits for the answer. If ctx ends first, the function is called in the background.
func (t *task) wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run makes the committer call a function before it takes the open batch, and waits for it. It
// returns [ErrUnavailable] if the store can't be used. If ctx ends first, do is called in the
// background, and must not use anything that the caller continues to use. Every accepted task is
// answered, even by a committer that ends.
func (q *queue) run(ctx context.Context, do func() error) error {
	t := newTask(do)
	if !q.addTask(t) {
		return ErrUnavailable
	}
	return t.wait(ctx)
}

// addTask adds a task, and reports whether the queue is open.
func (q *queue) addTask(t *task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.tasks = append(q.tasks, t)
	q.wakeUp()
	return true
}
