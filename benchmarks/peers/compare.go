//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
)

// outcome is what a case showed of a side.
type outcome struct {
	server, gogc string
	kase         kase
	side         side

	ratios   []float64     // requests per second, to those without a limiter; in the order measured
	requests int64         // of all measurements
	wrong    int64         // answers with another status than the limit demands
	cpu      time.Duration // that the measurements took of the server
	resident int           // KiB, when all were done
	outages  int           // times that the store couldn't be used
	sending  time.Duration // processor time that the requests took of this process
}

// perRequest returns the processor time that a request took.
func (o *outcome) perRequest() time.Duration { return o.cpu / time.Duration(max(1, o.requests)) }

// compare runs all sides of a server at once, and sends them the requests of a case in
// turn, forth and back: A B B A …. The first side has no limiter.
func (b *bench) compare(ctx context.Context, s server, at site, k kase) ([]*outcome, error) {
	var sides []*running
	defer func() {
		for _, r := range sides {
			r.stop()
		}
	}()
	var outcomes []*outcome
	at.limit, at.keys, at.cold = k.limit, k.keys, k.cold
	for _, side := range s.sides {
		at.side = side
		r, err := b.start(ctx, s, at)
		if err != nil {
			return nil, err
		}
		sides = append(sides, r)
		outcomes = append(outcomes, &outcome{server: s.name, gogc: at.gogc, kase: k, side: side})
	}
	for _, r := range sides {
		if err := b.warmUp(ctx, r); err != nil {
			return nil, err
		}
	}
	if err := b.measure(ctx, sides, outcomes, k); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// warmUp sends requests until each key in rotation has come once, unless keys are to be cold.
func (b *bench) warmUp(ctx context.Context, r *running) error {
	l := load.Load{Duration: warmUpMost * b.period, Requests: warmUpLeast}
	if !r.keys.cold {
		l.Requests = max(r.keys.keys, warmUpLeast)
	}
	_, err := r.send(ctx, b.connections, l)
	return err
}

// warmUpMost is how many periods warming up may take; warmUpLeast is how many requests it sends.
const (
	warmUpMost  = 5
	warmUpLeast = 1000
)

// measure fills in the outcomes of sides.
func (b *bench) measure(ctx context.Context, sides []*running, outcomes []*outcome, k kase) error {
	if err := settle(ctx, sides); err != nil {
		return err
	}
	for i, r := range sides {
		cpu, err := r.cpu()
		if err != nil {
			return err
		}
		outcomes[i].cpu = -cpu
	}
	for round := range b.repeats {
		if err := b.round(ctx, sides, outcomes, k, round); err != nil {
			return err
		}
	}
	for i, r := range sides {
		if err := outcomes[i].finish(r); err != nil {
			return err
		}
	}
	return nil
}

// round measures each side once.
func (b *bench) round(ctx context.Context, sides []*running, outcomes []*outcome, k kase, round int) error {
	rates := make([]float64, len(sides))
	for _, i := range lab.Turns(len(sides), round) {
		before := lab.CPU()
		got, err := sides[i].send(ctx, b.connections, load.Load{Duration: b.period})
		if err != nil {
			return err
		}
		rates[i] = float64(got.Count(load.OK, load.Other)) / got.Elapsed.Seconds()
		outcomes[i].sending += lab.CPU() - before
		outcomes[i].count(got.Count(load.OK), got.Count(load.Other))
		if err := settle(ctx, sides); err != nil {
			return err
		}
	}
	for i, o := range outcomes {
		o.ratios = append(o.ratios, rates[i]/rates[0])
		fmt.Printf("raw %s%s %s %s: %.0f/s, ratio %.3f\n", o.server, gogcOf(o.gogc), k.name, o.side, rates[i], rates[i]/rates[0])
	}
	return nil
}

// gogcOf names a value of GOGC, if there is one.
func gogcOf(value string) string {
	if value == "" {
		return ""
	}
	return " GOGC=" + value
}

// count adds the answers of a measurement.
func (o *outcome) count(ok, others int64) {
	o.requests += ok + others
	if o.kase == refused && o.side != without {
		o.wrong += ok
	} else {
		o.wrong += others
	}
}

// finish reads what the measurements took of the machine.
func (o *outcome) finish(r *running) error {
	cpu, err := r.cpu()
	if err != nil {
		return err
	}
	o.cpu += cpu
	for _, p := range r.processes {
		resident, err := p.Resident()
		if err != nil {
			return err
		}
		outages, err := p.Logged(outage)
		if err != nil {
			return err
		}
		o.resident += resident
		o.outages += outages
	}
	return nil
}

// cpu returns the processor time of all processes of a side.
func (r *running) cpu() (sum time.Duration, err error) {
	for _, p := range r.processes {
		cpu, err := p.CPU()
		if err != nil {
			return 0, err
		}
		sum += cpu
	}
	return sum, nil
}

const (
	settleLook = 100 * time.Millisecond
	settleMost = 2 * time.Second
)

// settle waits until the servers have done what a measurement left them with, as a
// checkpoint or collecting garbage, so that the next one isn't slower for it: until they
// take next to no processor time any more, or for settleMost.
func settle(ctx context.Context, sides []*running) error {
	before, end := time.Duration(-1), time.Now().Add(settleMost)
	for {
		var now time.Duration
		for _, r := range sides {
			cpu, err := r.cpu()
			if err != nil {
				return err
			}
			now += cpu
		}
		if before >= 0 && now-before <= 10*time.Millisecond || time.Now().After(end) {
			return ctx.Err()
		}
		before = now
		time.Sleep(settleLook)
	}
}
