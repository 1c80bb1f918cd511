//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
)

// A setup is what a machine needs.
type setup struct {
	Way     string
	Address string // of Redis
	Folder  string // with the secret of all machines
	Amount  int64  // of the limit
	Window  time.Duration
	Timeout time.Duration // how long this module's way waits for Redis
}

// A side is one way of limiting: machines, and the Redis that they share.
type side struct {
	name     string
	server   *server
	machines []way
	keys     int64   // in rotation
	sent     []int64 // requests of each machine

	rates []float64   // requests per second, of each round
	all   load.Report // of all rounds
	redis usage       // what Redis had to do for them
}

// startSide starts a side of so many machines.
func (s *settings) startSide(ctx context.Context, machines int, as setup) (*side, error) {
	server, err := startServer(ctx, s.scratch)
	if err != nil {
		return nil, err
	}
	made := &side{name: as.Way, server: server, keys: s.keys}
	as.Address, as.Folder, as.Timeout = server.address, filepath.Join(s.scratch, "secret"), s.timeout
	err = os.MkdirAll(as.Folder, 0o700)
	for i := range machines {
		var w way
		if err == nil {
			w, err = newWay(as)
		}
		if err != nil {
			made.stop()
			return nil, fmt.Errorf("%s, machine %d: %w", as.Way, i, err)
		}
		made.machines = append(made.machines, w)
		made.sent = append(made.sent, int64(i)*s.keys/3) // machines begin at different places of the rotation
	}
	return made, nil
}

func (s *side) stop() {
	for _, m := range s.machines {
		m.close()
	}
	s.server.stop()
}

// measure measures the side for a time.
func (s *side) measure(ctx context.Context, k kase, period time.Duration) error {
	before, err := s.server.usage()
	if err != nil {
		return err
	}
	r, err := s.send(ctx, k.keys, goroutines, load.Load{Duration: period})
	if err != nil {
		return err
	}
	after, err := s.server.usage()
	if err != nil {
		return err
	}
	rate := float64(r.Count()) / r.Elapsed.Seconds()
	fmt.Printf("raw %d machines, %s, %s: %.0f/s\n", len(s.machines), k.name, s.name, rate)
	s.rates = append(s.rates, rate)
	s.all.Add(r)
	s.all.Elapsed += r.Elapsed
	s.redis.commands += after.commands - before.commands
	s.redis.cpu += after.cpu - before.cpu
	return nil
}

// send sends a load to each machine of the side.
func (s *side) send(ctx context.Context, keys string, goroutines int, l load.Load) (sum load.Report, err error) {
	reports, errs := make([]load.Report, len(s.machines)), make([]error, len(s.machines))
	var all sync.WaitGroup
	for i, m := range s.machines {
		clients := make([]load.Client, goroutines)
		for goroutine := range clients {
			k := &keyer{machine: i, kind: keys, keys: s.keys, first: s.sent[i], chance: rand.New(rand.NewPCG(uint64(i), uint64(goroutine)))}
			clients[goroutine] = k.client(m.decider())
		}
		all.Go(func() { reports[i], errs[i] = load.Run(ctx, l, clients) })
	}
	all.Wait()
	for i, r := range reports {
		s.sent[i] += r.Count()
		sum.Add(r)
		sum.Elapsed = max(sum.Elapsed, r.Elapsed)
	}
	return sum, errors.Join(errs...)
}

// flaws says what makes the measurements worth less, or nothing.
func (s *side) flaws() string {
	if s.all.Answers[load.Wrong] == 0 {
		return ""
	}
	return fmt.Sprintf("VOID: %d of %d decisions were made without Redis", s.all.Answers[load.Wrong], s.all.Count())
}

// How the keys of requests are chosen.
const (
	hotKey      = "hot"      // one for all
	rotation    = "rotation" // all in turn
	newKeys     = "new"      // each comes once
	halfRefused = "half"     // half of the requests have one of a few keys, and half are in rotation
)

// fewKeys is how many keys use up their limits in halfRefused.
const fewKeys = 100

// A keyer makes the keys of one goroutine.
type keyer struct {
	machine int
	kind    string
	keys    int64 // in rotation
	first   int64 // number of the load's first request
	chance  *rand.Rand
	room    []byte
}

// client returns the client that asks in the goroutine.
func (k *keyer) client(decide decider) load.Client {
	return func(ctx context.Context, number int64) (load.Kind, error) {
		allowed, err := decide(ctx, k.key(k.first+number))
		switch {
		case err != nil:
			return load.Wrong, nil
		case allowed:
			return load.OK, nil
		}
		return load.Other, nil
	}
}

// key returns the key of a request of the machine. It holds until the next call.
func (k *keyer) key(number int64) []byte {
	switch {
	case k.kind == hotKey:
		return k.number("hot-", 0)
	case k.kind == newKeys:
		k.room = strconv.AppendInt(append(k.number("new-", int64(k.machine)), '-'), number, 10)
		return k.room
	case k.kind == halfRefused && number%2 == 0:
		return k.number("refused-", k.chance.Int64N(fewKeys))
	}
	return k.number("client-", number%k.keys)
}

func (k *keyer) number(prefix string, n int64) []byte {
	k.room = strconv.AppendInt(append(k.room[:0], prefix...), n, 10)
	return k.room
}
