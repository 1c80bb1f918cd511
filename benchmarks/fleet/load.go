//go:build linux

package main

import (
	"context"
	"sync"
	"syscall"
	"time"
)

// A load is the requests that come to a machine. It ends after Requests or Period, whichever is
// given.
type load struct {
	Keys       string
	Goroutines int
	PerSecond  float64       // of each goroutine; 0 asks as soon as it has an answer
	Period     time.Duration // 0: no bound
	Requests   int           // of each goroutine; 0: no bound
}

// A report is how requests were answered.
type report struct {
	Requests, Allowed int64
	Wrong             int64         // decided without Redis, or not at all
	Took              histogram     // how long decisions took
	Elapsed           time.Duration // the longest of those that are merged
	CPU               time.Duration // that the machine took
	Failure           string        // why nothing could be measured
}

func (r *report) merge(other *report) {
	r.Requests += other.Requests
	r.Allowed += other.Allowed
	r.Wrong += other.Wrong
	r.CPU += other.CPU
	r.Elapsed = max(r.Elapsed, other.Elapsed)
	r.Took.merge(&other.Took)
	if r.Failure == "" {
		r.Failure = other.Failure
	}
}

// A client sends the requests of one goroutine.
type client struct {
	keys   *keyer
	decide decider
}

// send sends the requests of a load that comes to clients.
func send(ctx context.Context, clients []client, l load) (sum report) {
	reports := make([]report, len(clients))
	cpu, start := cpuTime(), time.Now()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { clients[i].send(ctx, l, start, &reports[i]) })
	}
	all.Wait()
	if len(clients) == 0 {
		time.Sleep(l.Period) // the machine is idle
	}
	for i := range reports {
		sum.merge(&reports[i])
	}
	sum.Elapsed, sum.CPU = time.Since(start), cpuTime()-cpu
	return sum
}

// send sends the requests of one goroutine. Between two of them it reads the clock once.
func (c *client) send(ctx context.Context, l load, start time.Time, r *report) {
	c.keys.begin(l)
	due, interval := start, time.Duration(0)
	if l.PerSecond > 0 {
		interval = time.Duration(float64(time.Second) / l.PerSecond)
		due = due.Add(time.Duration(c.keys.chance.Int64N(int64(interval))))
	}
	for now := time.Now(); (l.Period == 0 || now.Sub(start) < l.Period) && (l.Requests == 0 || r.Requests < int64(l.Requests)); {
		if interval > 0 {
			time.Sleep(due.Sub(now))
			now, due = time.Now(), due.Add(interval)
		}
		allowed, err := c.decide(ctx, c.keys.next(l.Keys))
		after := time.Now()
		r.count(allowed, err, after.Sub(now))
		now = after
	}
}

func (r *report) count(allowed bool, err error, took time.Duration) {
	r.Requests++
	if allowed {
		r.Allowed++
	}
	if err != nil {
		r.Wrong++
	}
	r.Took.add(took)
}

// cpuTime returns the processor time that this process has taken.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
