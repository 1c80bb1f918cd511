//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
)

// shortly lets rows expire soon, so that sweeps have something to remove.
var shortly = limit{1000, 15 * time.Second}

// claimRate is how many requests per second come where nothing waits for anything, so that the
// difference of the medians is what a claim adds.
const claimRate = 200

// latencies measures how long answers take at half of the capacity, with checkpoints and sweeps, and
// how long those take that need a claim and wait for nothing else. Each is measured without the
// limiter as well, in turn.
func (b *bench) latencies(ctx context.Context) error {
	program, err := b.buildTally(ctx)
	if err != nil {
		return err
	}
	at := site{program: program, limit: shortly, gogc: "100", swept: true}
	for _, k := range []kase{rotation, newKeys} {
		at.keys = k.keys
		if err := b.underLoad(ctx, at, k.name, 0); err != nil {
			return err
		}
	}
	return b.underLoad(ctx, at, "what a claim adds", claimRate)
}

// underLoad measures one case at a rate, or at half of the capacity if that is 0.
func (b *bench) underLoad(ctx context.Context, at site, name string, rate float64) error {
	fmt.Fprintln(os.Stderr, "latency,", name, "…")
	var sides [2]*running
	for i, side := range []side{without, limited} {
		at.side = side
		r, err := b.start(ctx, b.caddy(), at)
		if err != nil {
			return err
		}
		defer r.stop()
		if err := b.warmUp(ctx, r); err != nil {
			return err
		}
		sides[i] = r
	}
	connections := 1
	if rate == 0 {
		got, err := sides[1].send(ctx, b.connections, load.Load{Duration: b.period})
		if err != nil {
			return err
		}
		connections, rate = b.connections, float64(got.All().Count())/got.Elapsed.Seconds()/2
	}
	if err := settle(ctx, sides[:]); err != nil {
		return err
	}
	var reports [2]load.Report
	for round := range b.repeats {
		for _, i := range lab.Turns(len(sides), round) {
			got, err := sides[i].send(ctx, connections, load.Load{Rate: rate, Duration: b.latency / time.Duration(b.repeats)})
			if err != nil {
				return err
			}
			reports[i].Merge(&got)
		}
	}
	fmt.Printf("\n%s: %.0f requests per second over %d connections\n", name, rate, connections)
	printLatency("without the limiter", reports[0].All())
	printLatency("with the limiter", reports[1].All())
	return printFlaws(sides[1], reports[1])
}

func printLatency(what string, took *stats.Histogram) {
	fmt.Printf("%-20s answers=%d p50=%.1f µs p99=%.0f µs p99.9=%.0f µs most=%.0f µs\n", what, took.Count(), stats.Micros(took.Percentile(.5)),
		stats.Micros(took.Percentile(.99)), stats.Micros(took.Percentile(.999)), stats.Micros(took.Percentile(1)))
}

// keySender makes requests with keys. A load goes on where the last one ended, or if keys are to be
// cold, with others.
type keySender struct {
	keys int64 // in rotation; 0 never repeats one
	cold bool
	sent int64
}

// send sends a load to the processes of a side, each over its share of the connections.
func (r *running) send(ctx context.Context, connections int, l load.Load) (load.Report, error) {
	next := 0
	dial := func() (net.Conn, error) {
		next++
		return net.Dial("tcp", r.addresses[next%len(r.addresses)])
	}
	clients, closeAll, err := load.HTTP(connections, dial, r.keys.request(r.keys.sent))
	if err != nil {
		return load.Report{}, err
	}
	defer closeAll()
	got, err := load.Run(ctx, l, clients)
	r.keys.sent += got.All().Count()
	return got, errors.Join(err, ctx.Err())
}

// request returns a function that appends requests, whose keys begin with the given one.
func (k *keySender) request(first int64) func([]byte, int64) []byte {
	return func(buffer []byte, number int64) []byte {
		key := first + number
		switch {
		case k.cold:
			key = first + number%k.keys
		case k.keys > 0:
			key %= k.keys
		}
		buffer = append(buffer, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Key: key-"...)
		return append(strconv.AppendInt(buffer, key, 10), "\r\n\r\n"...)
	}
}

// printFlaws says what makes a result worth nothing.
func printFlaws(r *running, got load.Report) error {
	outages, err := r.processes[0].Logged(outage)
	if others := got.Count(load.Other); others > 0 || outages > 0 {
		fmt.Printf("VOID: %d answers were wrong, and the store couldn't be used %d times.\n", others, outages)
	}
	return err
}
