package readahead

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync/atomic"
)

// step is how many bytes are read at a time, and the least memory of a body.
const step = 512

// ErrLost is the error of a body that the pool has taken away.
var ErrLost = errors.New("there is no memory left for bodies, and this client's network holds most of it")

// Body is a request's body whose beginning has been read. Reading it begins with that.
type Body struct {
	io.ReadCloser // the rest
	pool          *Pool
	network       netip.Prefix
	read          int         // bytes that were read ahead
	end           error       // the error after them; nil if there may be more
	given         atomic.Bool // a later handler has begun to read it

	data  []byte        // guarded by pool.mu: what a later handler hasn't read yet of them
	held  int64         // guarded by pool.mu
	place *list.Element // guarded by pool.mu: nil if the body has no memory
	lost  bool          // guarded by pool.mu: the pool has taken away data
}

// Of returns the body of a request, which it replaces. The memory is that of a client's network,
// until a later handler has read it or the request ends.
func (p *Pool) Of(r *http.Request, network netip.Prefix) *Body {
	if b, ok := r.Body.(*Body); ok && !b.given.Load() {
		return b
	}
	b := &Body{ReadCloser: r.Body, pool: p, network: network}
	context.AfterFunc(r.Context(), func() { p.release(b) })
	r.Body = b
	return b
}

// Fill reads ahead until more than most bytes are read, or the body ends. While the client sends
// nothing, it waits, and holds what has been read. It returns ErrLost if the pool has taken that
// away. Otherwise an error is that of the body.
func (b *Body) Fill(most int) (longer bool, err error) {
	var data []byte
	for b.read <= most && b.end == nil {
		if data == nil {
			data = make([]byte, step)
		}
		var n int
		n, b.end = b.ReadCloser.Read(data[:min(step, most+1-b.read)])
		b.read += n
		if !b.pool.keep(b, data[:n], most+1) {
			b.end = ErrLost
		}
	}
	if b.end != nil && b.end != io.EOF {
		return false, b.end
	}
	return b.read > most, nil
}

// Text returns what has been read ahead, or ErrLost.
func (b *Body) Text() (string, error) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.lost {
		return "", ErrLost
	}
	return string(b.data), nil
}

// Read implements io.Reader. It returns what has been read ahead, and then the rest.
func (b *Body) Read(data []byte) (int, error) {
	b.given.Store(true)
	b.pool.mu.Lock()
	n, lost := copy(data, b.data), b.lost
	if b.data = b.data[n:]; len(b.data) == 0 {
		b.pool.releaseLocked(b)
	}
	b.pool.mu.Unlock()
	switch {
	case n > 0 || len(data) == 0:
		return n, nil
	case lost:
		return 0, ErrLost
	case b.end != nil:
		return 0, b.end
	}
	return b.ReadCloser.Read(data)
}

// Close implements io.Closer.
func (b *Body) Close() error {
	b.pool.release(b)
	return b.ReadCloser.Close()
}
