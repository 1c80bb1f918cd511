//go:build linux

package main

import (
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(child())
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

// must sends a load, all of whose requests Redis or what is known of it must decide.
func must(t *testing.T, s *side, l load) measurement {
	t.Helper()
	m, err := s.measure(l)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(l.Goroutines * l.Requests * len(s.machines)); m.Requests != want || m.Wrong != 0 {
		t.Fatalf("%d requests, %d of them without Redis, want %d and 0", m.Requests, m.Wrong, want)
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
			m := must(t, start(t, c.way, amount), load{Keys: hotKey, Goroutines: 4, Requests: 250})
			if m.Allowed < amount*9/10 || m.Allowed > amount {
				t.Errorf("%d requests were allowed, want %d", m.Allowed, amount)
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
	fresh := must(t, s, load{Keys: newKeys, Goroutines: 1, Requests: 100})
	must(t, s, load{Keys: eachKey, Goroutines: 4, Requests: 25})
	known := must(t, s, load{Keys: rotation, Goroutines: 1, Requests: 100})
	if fresh.redis.commands < 100 || known.redis.commands > 100 {
		t.Errorf("%d commands for 200 requests of new keys, %d for those of known ones", fresh.redis.commands, known.redis.commands)
	}
}

func TestAllKeysOfTheRotationComeOnce(t *testing.T) {
	const goroutines, keys = 8, 100
	seen := make(map[string]bool)
	l := load{Keys: eachKey, Requests: keys/goroutines + 1}
	for i := range goroutines {
		k := newKeyer(0, i, keys)
		k.begin(l)
		for range l.Requests {
			seen[string(k.next(l.Keys))] = true
		}
	}
	if len(seen) != keys {
		t.Errorf("%d keys came, want %d", len(seen), keys)
	}
}

func TestPercentilesOfAHistogram(t *testing.T) {
	var h histogram
	for i := range 100_000 {
		h.add(time.Duration(i) * time.Microsecond)
	}
	for _, share := range []float64{0.01, 0.5, 0.99, 1} {
		want := share * 100_000
		if got := float64(h.percentile(share)) / 1000; got < want*0.97 || got > want*1.03 {
			t.Errorf("%v: got %v µs, want %v", share, got, want)
		}
	}
	if got := new(histogram).percentile(0.5); got != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}

// A proxy passes on all that comes, in its order.
func TestDelayPassesOn(t *testing.T) {
	server, err := startServer(t.Context(), small(t).scratch)
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	d, err := newDelay(server.address, time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	client, err := connect(d.address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range int64(10) {
		if n, err := client.Do(t.Context(), client.B().Incr().Key("n").Build()).AsInt64(); err != nil || n != i+1 {
			t.Fatalf("got %d, %v, want %d", n, err, i+1)
		}
	}
}
