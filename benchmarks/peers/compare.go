//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
)

// A kase is what clients do. (case is a word of Go.)
type kase struct {
	name  string
	keys  int64 // in rotation; 0 never repeats one
	limit limit
}

// Before the measurements each key in rotation comes so many times. That takes at most so long.
const (
	rounds = 5
	warmUp = time.Minute
)

// refused is the case in which all is refused.
const refused = "refused"

// cases are what is measured. A limit of a million is never used up, however quick a server is.
// Limiters that keep a time for each unit need memory for all of them, so it isn't larger than it must be.
var cases = []kase{
	{"one-key", 1, limit{1_000_000, 10 * time.Second}},
	{"rotation", 100_000, limit{1000, time.Minute}},
	{"new-keys", 0, limit{1000, time.Minute}},
	{refused, 1, limit{1, 24 * time.Hour}},
}

// A side is a server that runs, with a limiter or without, and what was measured of it.
type side struct {
	*process.Process
	name    string // in results
	kase    kase
	limited bool
	address string

	sent     int64         // requests
	requests int64         // that were measured
	wrong    int64         // of these, answers with another status than the limit demands
	cpu      time.Duration // that the measurements took of the server
	sending  time.Duration // and of this process
	ratios   []float64     // requests per second, to those without a limiter; in the order measured
	costs    []float64     // processor time per request of each round, to that without a limiter
	resident int           // KiB, when all was done
}

// compare runs a server without a limiter and with one, or with those of several programs, and sends all the
// requests of a case in turn, forth and back. It returns the lines of the table.
func (s *settings) compare(ctx context.Context, server server, programs []string, k kase) (rows string, err error) {
	var sides []*side
	for i, program := range append(programs[:1:1], programs...) {
		side, err := s.start(ctx, server, site{program: program, limited: i > 0, limit: k.limit}, k)
		if err != nil {
			return "", err
		}
		defer side.Stop()
		switch {
		case i == 0:
			side.name = "without"
		case len(programs) == 1:
			side.name = "limited"
		default:
			side.name = filepath.Base(program)
		}
		sides = append(sides, side)
	}
	for _, side := range sides { // until the limiter knows the keys in rotation, and how often they come
		if _, err := side.send(ctx, s.connections, load.Load{Duration: warmUp, Requests: max(rounds*k.keys, 1000)}); err != nil {
			return "", err
		}
	}
	if err := s.measureSides(ctx, sides, server.name); err != nil {
		return "", err
	}
	plain := sides[0]
	base := plain.perRequest()
	for _, limited := range sides[1:] {
		outages, err := limited.Logged(outage)
		if err != nil {
			return "", err
		}
		cpu := limited.perRequest()
		rows += fmt.Sprintf("%s\t%s\t%s\t%s\t%.1f µs\t%.1f µs\t%s\t%.2f\t%d MiB\t%d MiB\t%s\n", server.name, k.name, limited.name,
			lab.Spread(limited.ratios), cpu, base, lab.Spread(limited.costs), cpu/base, limited.resident>>10, plain.resident>>10,
			flaws([]*side{plain, limited}, outages))
	}
	return rows, nil
}

// start starts a side of a server.
func (s *settings) start(ctx context.Context, server server, at site, k kase) (made *side, err error) {
	if at.folder, err = os.MkdirTemp(s.scratch, "server-"); err != nil {
		return nil, err
	}
	if at.port, err = process.FreePort(); err != nil {
		return nil, err
	}
	made = &side{kase: k, limited: at.limited, address: process.Address(at.port)}
	if made.Process, err = server.start(ctx, at); err != nil {
		return nil, err
	}
	if err := made.Await(made.address); err != nil {
		made.Stop()
		return nil, err
	}
	return made, nil
}

// send sends a load. It goes on where the last one ended.
func (s *side) send(ctx context.Context, connections int, l load.Load) (load.Report, error) {
	first := s.sent
	got, err := load.HTTP(ctx, s.address, connections, l, func(buffer []byte, number int64) []byte {
		key := first + number
		if s.kase.keys > 0 {
			key %= s.kase.keys
		}
		buffer = append(buffer, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Key: key-"...)
		return append(strconv.AppendInt(buffer, key, 10), "\r\n\r\n"...)
	})
	s.sent += got.Count()
	return got, errors.Join(err, ctx.Err())
}

// measureSides measures all sides as often as the flags say. What a server does after a measurement counts as of it,
// until its next one.
func (s *settings) measureSides(ctx context.Context, sides []*side, name string) error {
	if err := settle(ctx, sides); err != nil {
		return err
	}
	for round := range s.repeats {
		rates, costs := make([]float64, len(sides)), make([]float64, len(sides))
		for _, i := range lab.Turns(len(sides), round) {
			side := sides[i]
			before, failed := side.CPU()
			sending := lab.CPU()
			got, err := side.send(ctx, s.connections, load.Load{Duration: s.period})
			side.sending += lab.CPU() - sending
			if err := errors.Join(failed, err, settle(ctx, sides)); err != nil {
				return err
			}
			after, err := side.CPU()
			if err != nil {
				return err
			}
			side.cpu += after - before
			side.count(got)
			rates[i], costs[i] = float64(got.Count())/got.Elapsed.Seconds(), lab.Micros(after-before)/float64(max(1, got.Count()))
		}
		for i, side := range sides {
			side.ratios = append(side.ratios, rates[i]/rates[0])
			side.costs = append(side.costs, costs[i]/costs[0])
			fmt.Printf("raw %s %s %s: %.0f/s, ratio %.3f; %.1f µs, ratio %.3f\n", name, side.kase.name, side.name,
				rates[i], rates[i]/rates[0], costs[i], costs[i]/costs[0])
		}
	}
	for _, side := range sides {
		resident, err := side.Resident()
		if err != nil {
			return err
		}
		side.resident = resident
	}
	return nil
}

// count adds the answers of a measurement.
func (s *side) count(r load.Report) {
	s.requests += r.Count()
	if s.kase.name == refused && s.limited {
		s.wrong += r.Answers[load.OK]
	} else {
		s.wrong += r.Answers[load.Other]
	}
}

// perRequest returns the processor time that a request took, in µs.
func (s *side) perRequest() float64 { return lab.Micros(s.cpu) / float64(max(1, s.requests)) }

// flaws says what makes a comparison worth less, or nothing.
func flaws(sides []*side, outages int) string {
	var flaws []string
	for _, s := range sides {
		if s.sending > s.cpu {
			flaws = append(flaws, "sending took longer than answering "+s.name+": read CPU/request")
		}
		if share := float64(s.wrong) / float64(max(1, s.requests)); share > 0.001 {
			flaws = append(flaws, fmt.Sprintf("VOID: %.1f %% of the answers were wrong, %s", 100*share, s.name))
		}
	}
	if outages > 0 {
		flaws = append(flaws, fmt.Sprintf("VOID: the store couldn't be used %d times", outages))
	}
	return strings.Join(flaws, "; ")
}

const (
	settleLook = 100 * time.Millisecond
	settleMost = 2 * time.Second
)

// settle waits until the servers have done what a measurement left them with, as a
// checkpoint or collecting garbage, so that the next one isn't slower for it: until they
// take next to no processor time any more, or for settleMost.
func settle(ctx context.Context, sides []*side) error {
	for before, end := time.Duration(-1), time.Now().Add(settleMost); ; time.Sleep(settleLook) {
		now := time.Duration(0)
		for _, side := range sides {
			cpu, err := side.CPU()
			if err != nil {
				return err
			}
			now += cpu
		}
		if before >= 0 && now-before <= 10*time.Millisecond || time.Now().After(end) {
			return ctx.Err()
		}
		before = now
	}
}
