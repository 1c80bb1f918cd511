// Package load sends requests and measures how long their answers take.
//
// A client that waits for each answer before it sends the next request stops asking
// while the server is slow, and so leaves out what others would have met in that time:
// coordinated omission. Where a load has a rate, each request is due at a time that doesn't
// depend on earlier answers. One that can't be sent then, because all clients wait for
// answers, is measured from when it was due.
package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
)

// A Load is the requests of some clients. It needs a bound.
type Load struct {
	Rate     float64       // requests per second of all clients; 0 sends each as soon as a client is free
	Jitter   bool          // whether requests come at random moments of the interval that each has
	Duration time.Duration // after which no request is due any more; 0: no bound
	Requests int64         // how many are sent; 0: no bound
}

// A Client sends one request at a time, and returns the kind of its answer. Requests are numbered
// from 0.
type Client func(ctx context.Context, number int64) (Kind, error)

// A Kind tells answers apart. It is below Kinds.
type Kind int

// Kinds is how many kinds there are.
const Kinds = 3

// A Report sums up answers.
type Report struct {
	Took    [Kinds]stats.Histogram // how long answers of each kind took
	Elapsed time.Duration
}

// Count returns the number of answers of some kinds.
func (r *Report) Count(kinds ...Kind) (n int64) {
	for _, k := range kinds {
		n += r.Took[k].Count()
	}
	return n
}

// All returns the times of answers of all kinds.
func (r *Report) All() *stats.Histogram {
	all := new(stats.Histogram)
	for i := range r.Took {
		all.Merge(&r.Took[i])
	}
	return all
}

// Merge adds the answers of another report. Elapsed is the longer one.
func (r *Report) Merge(other *Report) {
	for i := range r.Took {
		r.Took[i].Merge(&other.Took[i])
	}
	r.Elapsed = max(r.Elapsed, other.Elapsed)
}

// Run sends a load and waits for the answers. It ends early with ctx, without an error. A client
// ends with its first error.
func Run(ctx context.Context, l Load, clients []Client) (sum Report, err error) {
	r := runner{load: l, start: time.Now()}
	reports, errs := make([]Report, len(clients)), make([]error, len(clients))
	var wg sync.WaitGroup
	for i, client := range clients {
		wg.Go(func() { errs[i] = r.send(ctx, client, &reports[i]) })
	}
	wg.Wait()
	for i := range reports {
		sum.Merge(&reports[i])
	}
	sum.Elapsed = time.Since(r.start)
	return sum, errors.Join(errs...)
}

// runner is a load that is being sent.
type runner struct {
	load  Load
	start time.Time
	next  atomic.Int64 // number of the next request
}

// send sends requests by a client, as long as any is due. Without a rate it reads the clock once
// for each.
func (r *runner) send(ctx context.Context, client Client, report *Report) error {
	for now := time.Since(r.start); ; {
		number := r.next.Add(1) - 1
		due, ok := r.await(ctx, number, now)
		if !ok {
			return nil
		}
		kind, err := client(ctx, number)
		if err != nil {
			return err
		}
		now = time.Since(r.start)
		report.Took[kind].Add(now - due)
	}
}

// await waits until a request is due and returns when it was, or false if none is any
// more. A timer that fires late makes the request due later: that is no fault of the
// server's.
func (r *runner) await(ctx context.Context, number int64, now time.Duration) (due time.Duration, ok bool) {
	if r.load.Requests > 0 && number >= r.load.Requests {
		return 0, false
	}
	if due = r.due(number, now); r.load.Duration > 0 && due >= r.load.Duration {
		return 0, false
	}
	if now < due {
		time.Sleep(due - now)
		due = time.Since(r.start)
	}
	return due, ctx.Err() == nil
}

// due returns when a request is due.
func (r *runner) due(number int64, now time.Duration) time.Duration {
	if r.load.Rate == 0 {
		return now
	}
	turn := float64(number)
	if r.load.Jitter {
		turn += rand.Float64()
	}
	return time.Duration(turn / r.load.Rate * float64(time.Second))
}
