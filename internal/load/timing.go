package load

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Timing measures how long later handlers take until their answer begins, without the time that they
// wait for the request's body.
type Timing struct {
	ctx       context.Context // of the request
	began     time.Time
	waited    atomic.Int64 // for the body, in nanoseconds
	latencies []*Latency
	now       func() int64
	ended     bool
}

// NewTiming begins to measure. now returns the time by which latencies are kept.
func NewTiming(ctx context.Context, now func() int64) *Timing {
	return &Timing{ctx: ctx, began: time.Now(), now: now}
}

// Measure adds what is measured.
func (t *Timing) Measure(latencies ...*Latency) { t.latencies = append(t.latencies, latencies...) }

// Watch measures how long handlers wait for the body of a request. A nil Timing ignores it.
func (t *Timing) Watch(r *http.Request) {
	if t != nil && r.Body != nil && r.Body != http.NoBody {
		r.Body = timedBody{r.Body, &t.waited}
	}
}

// End notes that the answer begins. Only the first call counts. A nil Timing ignores it.
func (t *Timing) End() {
	if t == nil || t.ended {
		return
	}
	t.ended = true
	took, now := time.Since(t.began)-time.Duration(t.waited.Load()), t.now()
	left := t.ctx.Err() != nil
	for _, l := range t.latencies {
		if left {
			l.addLeft(took, now)
		} else {
			l.Add(took, now)
		}
	}
}

// timedBody is a request's body that adds up how long its reader waits for it.
type timedBody struct {
	io.ReadCloser
	waited *atomic.Int64
}

// Read implements io.Reader.
func (b timedBody) Read(data []byte) (int, error) {
	began := time.Now()
	n, err := b.ReadCloser.Read(data)
	b.waited.Add(int64(time.Since(began)))
	return n, err
}
