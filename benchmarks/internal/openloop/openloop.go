// Package openloop sends HTTP requests at a fixed rate and measures how long their
// answers take.
//
// A client that waits for each answer before it sends the next request stops asking
// while the server is slow, and so leaves out what others would have met in that time:
// coordinated omission. Here each request is due at a time that doesn't depend on earlier
// answers. One that can't be sent then, because all connections wait for answers, is
// measured from when it was due.
package openloop

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Load is what is sent to a server.
type Load struct {
	Dial        func() (net.Conn, error)
	Connections int           // that are kept open; a request is sent over any that is free
	Rate        float64       // requests per second; 0 sends each as soon as a connection is free
	Duration    time.Duration // after which no request is due any more

	// Append appends a request to a buffer. Requests are numbered from 0.
	Append func(buffer []byte, number int64) []byte
}

// A Sample is an answered request.
type Sample struct {
	Due    time.Duration // since the start; when it was sent if the rate is 0
	Took   time.Duration
	Status int
}

// Result is what a load met.
type Result struct {
	Start   time.Time
	Samples []Sample // in no order
}

// Run sends a load and waits for the answers. It ends early with ctx.
func Run(ctx context.Context, l Load) (Result, error) {
	conns := make([]net.Conn, l.Connections)
	for i := range conns {
		conn, err := l.Dial()
		if err != nil {
			return Result{}, err
		}
		defer conn.Close()
		conns[i] = conn
	}
	r := runner{load: l, start: time.Now()}
	result := Result{Start: r.start}
	var (
		mu     sync.Mutex // guards failed and result.Samples
		failed error
		wg     sync.WaitGroup
	)
	for _, conn := range conns {
		wg.Go(func() {
			samples, err := r.send(ctx, conn)
			mu.Lock()
			defer mu.Unlock()
			result.Samples = append(result.Samples, samples...)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return result, errors.Join(failed, ctx.Err())
}

// runner is a load that is being sent.
type runner struct {
	load  Load
	start time.Time
	next  atomic.Int64 // number of the next request
}

// send sends requests over a connection, as long as any is due.
func (r *runner) send(ctx context.Context, conn net.Conn) (samples []Sample, err error) {
	var buffer []byte
	reader := bufio.NewReader(conn)
	for {
		number := r.next.Add(1) - 1
		due, ok := r.await(ctx, number)
		if !ok {
			return samples, nil
		}
		buffer = r.load.Append(buffer[:0], number)
		if _, err := conn.Write(buffer); err != nil {
			return samples, err
		}
		status, err := readAnswer(reader)
		if err != nil {
			return samples, err
		}
		samples = append(samples, Sample{Due: due, Took: time.Since(r.start) - due, Status: status})
	}
}

// await waits until a request is due and returns when it was, or false if none is any
// more. A timer that fires late makes the request due later: that is no fault of the
// server's.
func (r *runner) await(ctx context.Context, number int64) (due time.Duration, ok bool) {
	now := time.Since(r.start)
	if r.load.Rate == 0 {
		return now, now < r.load.Duration && ctx.Err() == nil
	}
	due = time.Duration(float64(number) / r.load.Rate * float64(time.Second))
	if due >= r.load.Duration {
		return 0, false
	}
	if now < due {
		time.Sleep(due - now)
		due = time.Since(r.start)
	}
	return due, ctx.Err() == nil
}
