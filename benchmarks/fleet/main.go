//go:build linux

// Command fleet measures what it costs machines to share limits by a Redis, in three ways, beside
// each other on one machine: with this module's engine and store, with a pipeline of INCRBY and
// EXPIRE per request, and with a script per request. What is measured in one run can be compared
// as a ratio. Each machine has an engine and connections of its own, and each way a redis-server.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
)

// settings are what the flags say, and how large measurements are.
type settings struct {
	repeats int
	period  time.Duration // of one measurement
	keys    int64         // in rotation
	timeout time.Duration // how long this module's way waits for Redis
	scratch string        // folder for what servers need
}

func main() {
	s := settings{keys: 100_000, timeout: time.Second}
	flag.IntVar(&s.repeats, "repeats", 5, "measurements of each way")
	flag.DurationVar(&s.period, "period", 800*time.Millisecond, "how long one measurement takes")
	flag.Parse()
	lab.Measure("", s.measure)
}

// A kase is requests that all ways are compared by.
type kase struct {
	name   string
	keys   string
	amount int64 // of the limit, per minute
}

var cases = []kase{
	{"keys in rotation, 10,000/1m", rotation, 10_000},
	{"half refused", halfRefused, 1000},
	{"new keys", newKeys, 1000},
	{"one hot key", hotKey, 1_000_000_000},
}

// goroutines is how many ask on each machine.
const goroutines = 64

// measure compares the ways in all cases, with one machine and with four.
func (s *settings) measure(ctx context.Context, scratch string) error {
	s.scratch = scratch
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmachines\tgoroutines\tcase\tway\trequests/s\tmean\tto incrby (min to max)\tto script (min to max)\tRedis CPU\tcommands\trefused\t")
	for _, machines := range []int{1, 4} {
		for _, k := range cases {
			sides, err := s.compare(ctx, machines, k)
			if err != nil {
				return err
			}
			for _, side := range sides {
				requests := float64(max(1, side.all.Count()))
				fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%.0f\t%.0f\t%s\t%s\t%.2f µs\t%.4f\t%.0f %%\t%s\n", machines, goroutines, k.name, side.name,
					lab.Median(side.rates), requests/side.all.Elapsed.Seconds(), beside(side, sides[0]), beside(side, sides[1]),
					lab.Micros(side.redis.cpu)/requests, float64(side.redis.commands)/requests,
					100*float64(side.all.Answers[load.Other])/requests, side.flaws())
			}
		}
	}
	_ = w.Flush()
	fmt.Println("CPU and commands are per request.")
	return nil
}

// beside returns the throughput of a way as a multiple of another's: the median, the least and the
// largest of the rounds.
func beside(s, base *side) string {
	var ratios []float64
	for i, rate := range s.rates {
		ratios = append(ratios, rate/base.rates[i])
	}
	return lab.Spread(ratios)
}

// warmRounds is how often each key of the rotation comes before this module's way is measured. It
// learns how often a key comes, and then charges ahead for those that come seldom. Other ways learn
// nothing.
const warmRounds = 3

// compare measures the ways in turn, forth and back.
func (s *settings) compare(ctx context.Context, machines int, k kase) (sides []*side, err error) {
	for _, name := range wayNames {
		made, err := s.startSide(ctx, machines, setup{Way: name, Amount: k.amount, Window: time.Minute})
		if err != nil {
			return nil, err
		}
		defer made.stop()
		sides = append(sides, made)
		for round := 0; k.keys != hotKey && round < warmRounds && (round == 0 || name == tally); round++ {
			if _, err := made.send(ctx, rotation, goroutines, load.Load{Requests: s.keys}); err != nil {
				return nil, err
			}
		}
		if _, err := made.send(ctx, k.keys, goroutines, load.Load{Duration: s.period / 4}); err != nil {
			return nil, err
		}
	}
	for round := range s.repeats {
		for _, i := range lab.Turns(len(sides), round) {
			if err := sides[i].measure(ctx, k, s.period); err != nil {
				return nil, err
			}
		}
	}
	return sides, ctx.Err()
}
