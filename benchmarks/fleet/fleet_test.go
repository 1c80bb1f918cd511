//go:build linux

package main

import (
	"os"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
)

func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(runChild())
	}
	os.Exit(m.Run())
}

// small returns settings for a few keys. It skips the test if there is no server.
func small(t *testing.T) *settings {
	t.Helper()
	if _, err := findServer(); err != nil {
		t.Skip("skipped:", err)
	}
	return &settings{repeats: 1, keys: 100, timeout: time.Minute, scratch: t.TempDir()}
}

// start starts a side of two machines that ends with the test.
func start(t *testing.T, way string, amount int64) *side {
	t.Helper()
	s, err := small(t).startSide(t.Context(), 2, setup{Way: way, Amount: amount, Window: 24 * time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// of returns so many requests.
func of(keys string, goroutines int, requests int64) workload {
	return workload{Keys: keys, Goroutines: goroutines, Load: load.Load{Requests: requests}}
}

// must sends a load, all of whose requests Redis or what is known of it must decide.
func must(t *testing.T, s *side, l workload) measurement {
	t.Helper()
	m, err := s.measure(l)
	if err != nil {
		t.Fatal(err)
	}
	if want := l.Requests * int64(len(s.machines)); m.requests() != want || m.Count(wrong) != 0 {
		t.Fatalf("%d requests, %d of them without Redis, want %d and 0", m.requests(), m.Count(wrong), want)
	}
	return m
}

// Each way shares one limit between two machines, with as many commands as it says.
func TestWaysShareALimit(t *testing.T) {
	const amount, goroutines, requests = 1000, 2 * 4, 2 * 4 * 250
	for _, c := range []struct { // each goroutine may have to send the script at first
		way         string
		least, most int64 // commands
	}{{incrby, 2 * requests, 2 * requests}, {script, requests, requests + goroutines}, {tally, 2, requests / 2}} {
		t.Run(c.way, func(t *testing.T) {
			m := must(t, start(t, c.way, amount), of(hotKey, 4, 1000))
			if m.Count(allowed) < amount*9/10 || m.Count(allowed) > amount {
				t.Errorf("%d requests were allowed, want %d", m.Count(allowed), amount)
			}
			if m.redis.commands < c.least || m.redis.commands > c.most {
				t.Errorf("%d commands for %d requests, want %d to %d", m.redis.commands, requests, c.least, c.most)
			}
		})
	}
}

// Keys that are new cost commands, also in this module's way, and those in rotation few.
func TestKeysOfLoads(t *testing.T) {
	s := start(t, tally, 1_000_000)
	fresh := must(t, s, of(newKeys, 1, 100))
	must(t, s, of(rotation, 4, 100))
	known := must(t, s, of(rotation, 1, 100))
	if fresh.redis.commands < 100 || known.redis.commands > 100 {
		t.Errorf("%d commands for 200 requests of new keys, %d for those of known ones", fresh.redis.commands, known.redis.commands)
	}
}

func TestAllKeysOfTheRotationComeOnce(t *testing.T) {
	const keys = 100
	seen := make(map[string]bool)
	k := newKeyer(setup{Keys: keys}, 0)
	for number := range int64(keys) {
		seen[string(k.key(workload{Keys: rotation}, 30+number))] = true
	}
	if len(seen) != keys {
		t.Errorf("%d keys came, want %d", len(seen), keys)
	}
}
