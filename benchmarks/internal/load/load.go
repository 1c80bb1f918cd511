// Package load sends requests as fast as they are answered, and counts the answers.
package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A Load is the requests of some clients. It needs a bound.
type Load struct {
	Duration time.Duration // after which no request is sent any more; 0: no bound
	Requests int64         // how many are sent; 0: no bound
}

// A Client sends one request at a time, and returns the kind of its answer. Requests are numbered
// from 0.
type Client func(ctx context.Context, number int64) (Kind, error)

// A Kind tells answers apart.
type Kind int

// The kinds of answers. Each program says what they mean.
const (
	OK    Kind = iota
	Other      // the limiter refused
	Wrong      // nothing was measured
	kinds
)

// A Report sums up answers.
type Report struct {
	Answers [kinds]int64
	Elapsed time.Duration
}

// Count returns the number of answers of all kinds.
func (r *Report) Count() int64 { return r.Answers[OK] + r.Answers[Other] + r.Answers[Wrong] }

// Add adds the answers of another report.
func (r *Report) Add(other Report) {
	for kind, n := range other.Answers {
		r.Answers[kind] += n
	}
}

// Run sends a load by clients, until there are no more requests, ctx ends or a client fails.
func Run(ctx context.Context, l Load, clients []Client) (sum Report, err error) {
	start, next := time.Now(), atomic.Int64{}
	reports, errs := make([]Report, len(clients)), make([]error, len(clients))
	var wg sync.WaitGroup
	for i, client := range clients {
		wg.Go(func() {
			for ctx.Err() == nil && (l.Duration == 0 || time.Since(start) < l.Duration) {
				number := next.Add(1) - 1
				if l.Requests > 0 && number >= l.Requests {
					return
				}
				kind, err := client(ctx, number)
				if err != nil {
					errs[i] = err
					return
				}
				reports[i].Answers[kind]++
			}
		})
	}
	wg.Wait()
	for _, r := range reports {
		sum.Add(r)
	}
	sum.Elapsed = time.Since(start)
	return sum, errors.Join(errs...)
}
