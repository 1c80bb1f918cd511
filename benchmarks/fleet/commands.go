//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
)

// A steady load sends each key 80 % of its limit of 10,000/1m.
const (
	steadyAmount    = 10_000
	steadyPerSecond = 0.8 * steadyAmount / 60
	steadyWarmUp    = 10 * time.Second
	steadyPeriod    = 20 * time.Second
	idlePeriod      = 6 * time.Second
	refusedAmount   = 100
	refusedPeriod   = 3 * time.Second
)

// A commandCase is a load whose commands are counted.
type commandCase struct {
	name           string
	machines       int
	amount         int64
	warm, measured workload
}

// commandCases are the loads. Each has machines and a Redis of its own, so they can be measured at
// the same time.
func commandCases() (cases []commandCase) {
	for _, machines := range []int{1, 4} {
		for _, keys := range []int{1, 16} {
			l := workload{Keys: ownKeys, Goroutines: keys, Load: load.Load{
				Rate: steadyPerSecond * float64(keys) / float64(machines), Jitter: true, Duration: steadyPeriod,
			}}
			warm := l
			warm.Duration = steadyWarmUp
			cases = append(cases, commandCase{fmt.Sprintf("%d keys, 80 %% of 10,000/1m", keys), machines, steadyAmount, warm, l})
		}
	}
	return cases
}

// refusedCases are loads of which all is refused, as fast as it can be.
func refusedCases() (cases []commandCase) {
	for _, machines := range []int{1, 4} {
		l := workload{Keys: hotKey, Goroutines: 16, Load: load.Load{Duration: refusedPeriod}}
		warm := l
		warm.Load = load.Load{Requests: 16 * refusedAmount}
		cases = append(cases, commandCase{"1 key, all refused", machines, refusedAmount, warm, l})
	}
	return cases
}

// commandCount is what a commandCase has shown.
type commandCount struct {
	commandCase
	measurement
	idle measurement
}

// commands counts the commands that Redis gets for a request.
func (s *settings) commands(ctx context.Context) error {
	steady, err := s.countAll(ctx, commandCases())
	if err != nil {
		return err
	}
	refused, err := s.countAll(ctx, refusedCases())
	if err != nil {
		return err
	}
	printCommands(append(steady, refused...))
	return ctx.Err()
}

// countAll measures cases at the same time.
func (s *settings) countAll(ctx context.Context, cases []commandCase) ([]commandCount, error) {
	counts, errs := make([]commandCount, len(cases)), make([]error, len(cases))
	var all sync.WaitGroup
	for i, c := range cases {
		all.Go(func() { counts[i], errs[i] = s.count(ctx, c) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// count counts the commands of a load, and those of machines that have nothing to do.
func (s *settings) count(ctx context.Context, c commandCase) (got commandCount, err error) {
	got.commandCase = c
	side, err := s.startSide(ctx, c.machines, setup{Way: tally, Amount: c.amount, Window: time.Minute}, nil)
	if err != nil {
		return got, err
	}
	defer side.stop()
	if _, err := side.measure(c.warm); err != nil {
		return got, err
	}
	if got.measurement, err = side.measure(c.measured); err != nil {
		return got, err
	}
	got.idle, err = side.measure(workload{Load: load.Load{Duration: idlePeriod}})
	return got, err
}

func printCommands(counts []commandCount) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmachines\tload\trequests/s\trefused\tcommands/request\twithout those of idle machines\tRedis CPU/request\tp50\tp99\t")
	for i := range counts {
		c := &counts[i]
		requests := float64(max(1, c.requests()))
		idle := float64(c.idle.redis.commands) / c.idle.Elapsed.Seconds() * c.Elapsed.Seconds()
		took := c.All()
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%.2f %%\t%.5f\t%.5f\t%.2f µs\t%v\t%v\t%s\n", c.machines, c.name, c.rate(), 100*c.refused(),
			float64(c.redis.commands)/requests, max(0, float64(c.redis.commands)-idle)/requests,
			stats.Micros(c.redis.cpu)/requests, short(took.Percentile(.5)), short(took.Percentile(.99)), c.flaws())
	}
	w.Flush()
	fmt.Println("Asked: at most 0.05 commands per admitted request, and 0 per refused one. An idle machine asks for news.")
}
