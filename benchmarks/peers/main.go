//go:build linux

// Command peers measures rate limiters of web servers side by side: this one in Caddy,
// mholt/caddy-ratelimit in Caddy, limit_req in nginx, and stick tables in HAProxy. Each
// is compared with the same server without a limiter, which answers the same, in turn
// (A B B A …): what is measured in one run on one machine can be compared as a ratio.
//
// Servers that are missing are left out.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// settings are what the flags say.
type settings struct {
	servers, cases, gogc, only lab.List
	repeats                    int
	period                     time.Duration // of one measurement
	connections                int           // that are kept open
	latency                    time.Duration // of the open-loop load
	tally, incumbent           string        // Caddys that are built already
	history                    bool          // whether this module is compared with and without a history
}

func main() {
	s := settings{servers: serverNames, cases: caseNames(), gogc: lab.List{"100", "400"}, only: partNames}
	flag.Var(&s.servers, "servers", "servers to measure")
	flag.Var(&s.cases, "cases", "cases to measure")
	flag.Var(&s.gogc, "gogc", "values of GOGC that each Caddy is run with")
	flag.Var(&s.only, "only", "parts to run")
	flag.IntVar(&s.repeats, "repeats", 5, "measurements of each side")
	flag.DurationVar(&s.period, "period", 3*time.Second, "how long one measurement takes")
	flag.IntVar(&s.connections, "connections", 64, "connections that are kept open")
	flag.DurationVar(&s.latency, "latency", 45*time.Second, "how long the open-loop load lasts")
	flag.StringVar(&s.tally, "caddy", "", "Caddy with this module that is built already")
	flag.StringVar(&s.incumbent, "incumbent", "", "Caddy with mholt/caddy-ratelimit that is built already")
	flag.BoolVar(&s.history, "history", false, "compare this module with itself without a history, instead of without header fields")
	flag.Parse()
	if err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check reports the first flag that asks for what there isn't.
func (s *settings) check() error {
	for _, l := range []struct {
		flag           string
		words, allowed lab.List
	}{{"servers", s.servers, serverNames}, {"cases", s.cases, caseNames()}, {"only", s.only, partNames}} {
		for _, word := range l.words {
			if !slices.Contains(l.allowed, word) {
				return fmt.Errorf("-%s: expected some of %s, got %q", l.flag, &l.allowed, word)
			}
		}
	}
	if s.repeats < 1 || s.period <= 0 {
		return fmt.Errorf("-repeats, -period: expected at least 1 of some time, got %d of %v", s.repeats, s.period)
	}
	return nil
}

func (s *settings) run() error {
	if err := s.check(); err != nil {
		return err
	}
	fmt.Printf("repeats: %d of %v, %d connections\n", s.repeats, s.period, s.connections)
	return lab.Measure("", s.only.String(), s.parts)
}

// partNames are the parts of the measurement, in their order.
var partNames = lab.List{"throughput", "latency"}

func (s *settings) parts(scratch string) []lab.Part {
	b := &bench{settings: s, scratch: scratch}
	return []lab.Part{
		{Name: partNames[0], Measure: b.throughput},
		{Name: partNames[1], Measure: b.latencies},
	}
}

// bench is one run of the measurement.
type bench struct {
	*settings
	scratch string
	folders int // that were made in scratch
}
