//go:build linux

// Command memory measures what keys cost in memory: bytes of heap per key with a
// million of them in an engine, and the resident memory of a real Caddy with
// 100,000 keys in rotation and after five million random ones have passed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
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

var parts = []struct {
	name string
	run  func(context.Context, settings) error
}{
	{"heap", measureHeap},
	{"caddy", measureCaddy},
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
	if err := run(s, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(s settings, only string) (err error) {
	if s.scratch, err = os.MkdirTemp("", "tally-memory-"); err != nil {
		return err
	}
	defer os.RemoveAll(s.scratch)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, p := range parts {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.name) {
			continue
		}
		fmt.Printf("\n== %s\n", p.name)
		if err := p.run(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}
