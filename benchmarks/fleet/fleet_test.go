//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
)

// start starts a side of two machines that ends with the test.
func start(t *testing.T, way string, amount int64) *side {
	t.Helper()
	if _, err := findServer(); err != nil {
		t.Skip("skipped:", err)
	}
	s := settings{keys: 100, timeout: time.Minute, scratch: t.TempDir()}
	made, err := s.startSide(t.Context(), 2, setup{Way: way, Amount: amount, Window: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.stop)
	return made
}

// must sends so many requests to each machine, all of which Redis or what is known of it must decide, and
// returns how many were allowed, and the commands that they took.
func must(t *testing.T, s *side, keys string, goroutines int, requests int64) (allowed, commands int64) {
	t.Helper()
	before, failed := s.server.usage()
	r, err := s.send(t.Context(), keys, goroutines, load.Load{Requests: requests})
	after, late := s.server.usage()
	if failed != nil || err != nil || late != nil {
		t.Fatal(failed, err, late)
	}
	if want := requests * int64(len(s.machines)); r.Count() != want || r.Answers[load.Wrong] != 0 {
		t.Fatalf("%d requests, %d of them without Redis, want %d and 0", r.Count(), r.Answers[load.Wrong], want)
	}
	return r.Answers[load.OK], after.commands - before.commands
}

// Each way shares one limit between two machines, with as many commands as it says.
func TestWaysShareALimit(t *testing.T) {
	const amount, goroutines, requests = 1000, 2 * 4, 2 * 4 * 250
	for _, c := range []struct { // each goroutine may have to send the script at first
		way         string
		least, most int64 // commands
	}{{incrby, 2 * requests, 2 * requests}, {script, requests, requests + goroutines}, {tally, 2, requests / 2}} {
		t.Run(c.way, func(t *testing.T) {
			allowed, commands := must(t, start(t, c.way, amount), hotKey, 4, 1000)
			if allowed < amount*9/10 || allowed > amount {
				t.Errorf("%d requests were allowed, want %d", allowed, amount)
			}
			if commands < c.least || commands > c.most {
				t.Errorf("%d commands for %d requests, want %d to %d", commands, requests, c.least, c.most)
			}
		})
	}
}

// Keys that are new cost commands, also in this module's way, and those in rotation few.
func TestKeysOfLoads(t *testing.T) {
	s := start(t, tally, 1_000_000)
	_, fresh := must(t, s, newKeys, 1, 100)
	must(t, s, rotation, 4, 100)
	if _, known := must(t, s, rotation, 1, 100); fresh < 100 || known > 100 {
		t.Errorf("%d commands for 200 requests of new keys, %d for those of known ones", fresh, known)
	}
}
