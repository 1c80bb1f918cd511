//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
)

// A group is cases that machines are measured in without being started anew.
type group struct {
	amount int64 // of the limit, per minute
	warm   bool  // whether machines know the keys of the rotation before they are measured
	cases  []kase
}

// A kase is requests that all ways are compared by.
type kase struct{ name, keys string }

var groups = []group{
	{1000, true, []kase{{"keys in rotation", rotation}, {"keys at random", random}, {"half refused", halfRefused}, {"new keys", newKeys}}},
	{10_000, true, []kase{{"keys in rotation, 10,000/1m", rotation}}},
	{1_000_000_000, false, []kase{{"one hot key", hotKey}}},
}

// A fleet is so many machines, with so many goroutines that ask on each.
type fleet struct{ machines, goroutines int }

// throughput compares the ways in all cases.
func (s *settings) throughput(ctx context.Context) error {
	var rows []row
	for _, text := range s.fleets {
		var f fleet
		if _, err := fmt.Sscanf(text, "%dx%d", &f.machines, &f.goroutines); err != nil || f.machines < 1 || f.goroutines < 1 {
			return fmt.Errorf("-fleets: expected machines and goroutines on each, as 4x64, got %q", text)
		}
		for _, g := range groups {
			more, err := s.compare(ctx, f, g)
			if err != nil {
				return err
			}
			rows = append(rows, more...)
		}
	}
	printThroughput(rows)
	return ctx.Err()
}

// A row is what a fleet has shown in a case.
type row struct {
	fleet
	kase     string
	outcomes []*outcome // in the order of wayNames
}

// An outcome is what all rounds of a case have shown of a way.
type outcome struct {
	way   string
	rates []float64 // requests per second, of each round
	all   measurement
}

// compare measures the ways in all cases of a group.
func (s *settings) compare(ctx context.Context, f fleet, g group) (rows []row, err error) {
	g.cases = slices.DeleteFunc(slices.Clone(g.cases), func(k kase) bool { return !slices.Contains(s.cases, k.keys) })
	if len(g.cases) == 0 {
		return nil, nil
	}
	var sides []*side
	defer func() {
		for _, s := range sides {
			s.stop()
		}
	}()
	for _, name := range wayNames {
		made, err := s.startSide(ctx, f.machines, setup{Way: name, Amount: g.amount, Window: time.Minute}, nil)
		if err != nil {
			return nil, err
		}
		sides = append(sides, made)
		if err := s.warmUp(made, f, g); err != nil {
			return nil, err
		}
	}
	for _, k := range g.cases {
		r, err := s.compareIn(sides, f, k)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// compareIn measures the ways in turn, forth and back, in one case.
func (s *settings) compareIn(sides []*side, f fleet, k kase) (row, error) {
	r := row{fleet: f, kase: k.name}
	for _, side := range sides {
		r.outcomes = append(r.outcomes, &outcome{way: side.name})
		if _, err := side.measure(workload{Keys: k.keys, Goroutines: f.goroutines, Load: load.Load{Duration: s.period / 4}}); err != nil {
			return r, err
		}
	}
	for round := range s.repeats {
		for _, i := range lab.Turns(len(sides), round) {
			m, err := sides[i].measure(workload{Keys: k.keys, Goroutines: f.goroutines, Load: load.Load{Duration: s.period}})
			if err != nil {
				return r, err
			}
			o := r.outcomes[i]
			o.rates = append(o.rates, m.rate())
			o.all.merge(&m)
			fmt.Printf("raw %d machines, %d goroutines, %s, %s: %.0f/s\n", f.machines, f.goroutines, k.name, o.way, m.rate())
		}
	}
	return r, nil
}

// warmRounds is how often each key of the rotation comes before this module's way is measured. It
// learns how often a key comes, and then charges ahead for those that come seldom. Other ways learn
// nothing.
const warmRounds = 3

// warmUp has each key of the rotation come to each machine, if the group wants that.
func (s *settings) warmUp(to *side, f fleet, g group) error {
	if !g.warm {
		return nil
	}
	rounds := 1
	if to.name == tally {
		rounds = warmRounds
	}
	for range rounds {
		m, err := to.measure(workload{Keys: rotation, Goroutines: f.goroutines, Load: load.Load{Requests: int64(s.keys)}})
		if err != nil {
			return err
		}
		fmt.Printf("raw %d machines, %d goroutines, each key once, %s: %.0f/s\n", f.machines, f.goroutines, to.name, m.rate())
	}
	return nil
}
