package engine

import "context"

// order is a function that one goroutine calls for another. The committer calls the orders of its
// queue between two batches.
type order struct {
	do   func() error
	done chan struct{} // closed when err is final
	err  error
}

func newOrder(do func() error) *order { return &order{do: do, done: make(chan struct{})} }

func (o *order) answer(err error) {
	o.err = err
	close(o.done)
}

// wait waits for the answer. If ctx ends first, the function is called in the background.
func (o *order) wait(ctx context.Context) error {
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// order makes the committer call a function before it takes the open batch, and waits for it. It
// returns [ErrUnavailable] if the store can't be used. If ctx ends first, do is called in the
// background, and must not use anything that the caller continues to use. Every accepted order is
// answered, even by a committer that ends.
func (q *queue) order(ctx context.Context, do func() error) error {
	o := newOrder(do)
	if !q.addOrder(o) {
		return ErrUnavailable
	}
	return o.wait(ctx)
}

// addOrder adds an order, and reports whether the queue is open.
func (q *queue) addOrder(o *order) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.orders = append(q.orders, o)
	q.wakeUp()
	return true
}
