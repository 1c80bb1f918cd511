//go:build linux

// Command memory measures what keys cost in memory: bytes of heap per key with a
// million of them in an engine, and the resident memory of a real Caddy with
// 100,000 keys in rotation and after five million random ones have passed.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// settings are what the flags say.
type settings struct {
	keys     int // in the engine
	rotating int // in rotation at Caddy
	random   int // that pass Caddy once each
	period   time.Duration
	port     int
	scratch  string
}

// parts returns what can be measured.
func (s settings) parts(scratch string) []lab.Part {
	s.scratch = scratch
	return []lab.Part{
		{Name: "heap", Measure: s.heap},
		{Name: "caddy", Measure: s.caddy},
	}
}

func main() {
	var s settings
	flag.IntVar(&s.keys, "keys", 1_000_000, "keys in the engine")
	flag.IntVar(&s.rotating, "rotating", 100_000, "keys in rotation at Caddy")
	flag.IntVar(&s.random, "random", 5_000_000, "random keys that pass Caddy")
	flag.DurationVar(&s.period, "period", 30*time.Second, "how long keys rotate")
	flag.IntVar(&s.port, "port", 18084, "port for Caddy, and the one after it")
	only := flag.String("only", "", "parts to run, separated by commas: heap, caddy")
	flag.Parse()
	if err := lab.Measure("", *only, s.parts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
