//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// outcome is what a case showed of a side.
type outcome struct {
	server, gogc string
	kase         kase
	side         side

	ratios   []float64     // requests per second, to those without a limiter; in the order measured
	requests int           // of all measurements
	wrong    int           // answers that were neither as the limit has them
	cpu      time.Duration // that the measurements took of the server
	resident int           // KiB, when all were done
	outages  int           // times that the store couldn't be used
	busy     float64       // the greatest share of the time that wrk needed its threads
}

// perRequest returns the processor time that a request took.
func (o *outcome) perRequest() time.Duration { return o.cpu / time.Duration(max(1, o.requests)) }

// compare runs all sides of a server at once, and sends them the requests of a case in
// turn, forth and back: A B B A …. The first side has no limiter.
func (b *bench) compare(ctx context.Context, s server, at site, k kase, processes int) ([]*outcome, error) {
	var sides []*running
	defer func() {
		for _, r := range sides {
			r.stop()
		}
	}()
	var outcomes []*outcome
	at.limit = k.limit
	for _, side := range s.sides {
		at.side = side
		r, err := b.start(ctx, s, at, processes)
		if err != nil {
			return nil, err
		}
		sides = append(sides, r)
		outcomes = append(outcomes, &outcome{server: s.name, gogc: at.gogc, kase: k, side: side})
	}
	for _, r := range sides {
		if err := b.warmUp(ctx, r, k); err != nil {
			return nil, err
		}
	}
	if err := b.measure(ctx, sides, outcomes, k); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// warmUpRounds is how often each side is sent requests at most before it is measured.
const warmUpRounds = 3

// warmUp sends requests until each key in rotation has come once.
func (b *bench) warmUp(ctx context.Context, r *running, k kase) error {
	sent := 0
	for range warmUpRounds {
		got, err := b.load(ctx, r, k)
		if sent += got.requests; err != nil || sent >= k.keys {
			return err
		}
	}
	return nil
}

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
	for repeat := range b.repeats {
		if err := b.round(ctx, sides, outcomes, k, repeat%2 == 1); err != nil {
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
func (b *bench) round(ctx context.Context, sides []*running, outcomes []*outcome, k kase, backwards bool) error {
	order := make([]int, len(sides))
	for i := range order {
		order[i] = i
	}
	if backwards {
		slices.Reverse(order)
	}
	rates := make([]float64, len(sides))
	for _, i := range order {
		got, err := b.load(ctx, sides[i], k)
		if err != nil {
			return err
		}
		rates[i] = got.rate
		outcomes[i].count(got)
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
func (o *outcome) count(got answers) {
	o.requests += got.requests
	o.busy = max(o.busy, got.busy)
	if o.kase.refused && o.side != without {
		o.wrong += max(0, got.requests-got.failed)
	} else {
		o.wrong += got.failed
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
		memory, err := p.Memory()
		if err != nil {
			return err
		}
		outages, err := p.Logged(outage)
		if err != nil {
			return err
		}
		o.resident += memory.Resident
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
