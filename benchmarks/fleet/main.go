//go:build linux

// Command fleet measures what it costs machines to share limits by a Redis, in three ways, beside
// each other on one machine: with this module's engine and store, with a pipeline of INCRBY and
// EXPIRE per request, and with a script per request. What is measured in one run can be compared
// as a ratio. Each machine is a process of its own, and each way has a redis-server of its own.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// settings are what the flags say, and how large measurements are.
type settings struct {
	only    string
	repeats int
	period  time.Duration // of one measurement
	keys    int           // in rotation
	fleets  lab.List      // to measure the throughput of
	cases   lab.List      // to measure it in
	timeout time.Duration // see setup
	scratch string        // folder for what servers and machines need
}

func main() {
	if isChild() {
		os.Exit(runChild())
	}
	s := settings{keys: 100_000, timeout: time.Second, fleets: lab.List{"1x64", "1x256", "4x64"}, cases: lab.List{rotation, random, halfRefused, newKeys, hotKey}}
	flag.StringVar(&s.only, "only", "throughput,commands,latency", "parts to run")
	flag.Var(&s.fleets, "fleets", "machines, and goroutines on each, that throughput is measured with")
	flag.Var(&s.cases, "cases", "how keys are chosen where throughput is measured")
	flag.IntVar(&s.repeats, "repeats", 5, "measurements of each way")
	flag.DurationVar(&s.period, "period", 800*time.Millisecond, "how long one measurement takes")
	flag.Parse()
	if err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (s *settings) run() error {
	if s.repeats < 1 || s.period <= 0 {
		return fmt.Errorf("-repeats, -period: expected at least 1 of some time, got %d of %v", s.repeats, s.period)
	}
	return lab.Measure("", s.only, func(scratch string) []lab.Part {
		s.scratch = scratch
		return []lab.Part{
			{Name: "throughput", Measure: s.throughput},
			{Name: "commands", Measure: s.commands},
			{Name: "latency", Measure: s.latency},
		}
	})
}
