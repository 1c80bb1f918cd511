package engine

import "context"

// order is something that the committer does for another goroutine, between two batches.
type order struct {
	do   func() error
	done chan struct{} // closed when err is final
	err  error
}

func (o *order) answer(err error) {
	o.err = err
	close(o.done)
}

// order has the committer do something, and waits for it. It returns [ErrUnavailable] if the
// store can't be used. If ctx ends first, it is done in the background: do must use nothing
// then that the caller goes on with.
func (m *committer) order(ctx context.Context, do func() error) error {
	o := &order{do: do, done: make(chan struct{})}
	if !m.queue.order(o) {
		return ErrUnavailable
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
