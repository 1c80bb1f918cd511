//go:build linux

// Command peers measures rate limiters of web servers side by side: this one in Caddy,
// mholt/caddy-ratelimit in Caddy, limit_req in nginx, and stick tables in HAProxy. Each
// is compared with the same server without a limiter, which answers the same, in turn
// (A B B A …): what is measured in one run on one machine can be compared as a ratio.
//
// Servers that are missing are left out. The requests are wrk's, which is needed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// settings are what the flags say.
type settings struct {
	servers, cases, gogc, only list
	repeats                    int
	period                     time.Duration // of one measurement
	connections, threads       int
	latency                    time.Duration // of the open-loop load
	tally, incumbent           string        // Caddys that are built already
	keysScript                 string        // sends keys with wrk
}

// list is a flag of words separated by commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(text string) error {
	*l = strings.Split(text, ",")
	return nil
}

func main() {
	s := settings{servers: serverNames, cases: caseNames(), gogc: list{"100", "400"}, only: partNames}
	flag.Var(&s.servers, "servers", "servers to measure")
	flag.Var(&s.cases, "cases", "cases to measure")
	flag.Var(&s.gogc, "gogc", "values of GOGC that each Caddy is run with")
	flag.Var(&s.only, "only", "parts to run")
	flag.IntVar(&s.repeats, "repeats", 5, "measurements of each side")
	flag.DurationVar(&s.period, "period", 3*time.Second, "how long one measurement takes; whole seconds")
	flag.IntVar(&s.connections, "connections", 64, "connections that wrk keeps open")
	flag.IntVar(&s.threads, "threads", 1, "threads that wrk has")
	flag.DurationVar(&s.latency, "latency", 45*time.Second, "how long the open-loop load lasts")
	flag.StringVar(&s.tally, "caddy", "", "Caddy with this module that is built already")
	flag.StringVar(&s.incumbent, "incumbent", "", "Caddy with mholt/caddy-ratelimit that is built already")
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
		words, allowed list
	}{{"servers", s.servers, serverNames}, {"cases", s.cases, caseNames()}, {"only", s.only, partNames}} {
		for _, word := range l.words {
			if !slices.Contains(l.allowed, word) {
				return fmt.Errorf("-%s: expected some of %s, got %q", l.flag, &l.allowed, word)
			}
		}
	}
	if s.repeats < 1 || s.period < time.Second || s.period%time.Second != 0 {
		return fmt.Errorf("-repeats, -period: expected at least 1 of whole seconds, got %d of %v", s.repeats, s.period)
	}
	return nil
}

func (s *settings) run() error {
	if err := s.check(); err != nil {
		return err
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		return fmt.Errorf("%w; in Debian it is the package wrk", err)
	}
	script, err := moduleFolder(context.Background(), "benchmarks/e2e/keys.lua")
	if err != nil {
		return err
	}
	s.keysScript = script
	fmt.Printf("repeats: %d of %v, wrk with %d connections and %d threads\n", s.repeats, s.period, s.connections, s.threads)
	fmt.Printf("takes at most: %v, and what building takes\n", s.estimate().Round(time.Second))
	return lab.Measure("", s.only.String(), s.parts)
}

// partNames are the parts of the measurement, in their order.
var partNames = list{"throughput", "shared", "latency", "claim"}

func (s *settings) parts(scratch string) []lab.Part {
	b := &bench{settings: s, scratch: scratch}
	return []lab.Part{
		{Name: partNames[0], Measure: b.throughput},
		{Name: partNames[1], Measure: b.shared},
		{Name: partNames[2], Measure: b.latencies},
		{Name: partNames[3], Measure: b.claims},
	}
}

// bench is one run of the measurement.
type bench struct {
	*settings
	scratch string
	folders int // that were made in scratch
}
