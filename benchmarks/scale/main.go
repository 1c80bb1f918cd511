//go:build unix

// Command scale measures how the store holds up as it grows: bytes per row, cold
// decisions and the processor time of claims with ten thousand to ten million rows,
// cold decisions while expired rows are deleted and while a checkpoint runs, and the first answer after a
// start.
//
// A cold decision is one about a key that memory doesn't hold, so that it waits
// for a claim. Requests come at random moments at a given rate, whether or not
// earlier ones have been answered; the time is counted from the call. What is
// compared is measured in turn, in one run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// settings are what the flags say.
type settings struct {
	rows    int           // in the largest database
	some    int           // rows where one database is enough
	rate    int           // requests per second
	period  time.Duration // of a round of cold decisions
	rounds  int           // of cold decisions, for each size
	repeats int           // of sweeps and of runs with checkpoints
	scratch string        // folder for databases
}

// parts returns what can be measured.
func (s settings) parts(scratch string) []lab.Part {
	s.scratch = scratch
	return []lab.Part{
		{Name: "size", Measure: s.size},
		{Name: "cold", Measure: s.cold},
		{Name: "cost", Measure: func(ctx context.Context) error { return s.cost(ctx, false) }},
		{Name: "cost-without-journal", Measure: func(ctx context.Context) error { return s.cost(ctx, true) }},
		{Name: "sweep", Measure: s.sweep},
		{Name: "checkpoint", Measure: s.checkpoint},
		{Name: "start", Measure: s.start},
	}
}

func main() {
	var s settings
	flag.IntVar(&s.rows, "rows", 10_000_000, "rows in the largest database")
	flag.IntVar(&s.some, "some", 1_000_000, "rows to delete, to be beside a checkpoint, and to start with")
	flag.IntVar(&s.rate, "rate", 1000, "cold decisions per second")
	flag.DurationVar(&s.period, "period", 500*time.Millisecond, "length of a round; short ones make what else the machine does the same for all")
	flag.IntVar(&s.rounds, "rounds", 40, "rounds for each size")
	flag.IntVar(&s.repeats, "repeats", 3, "sweeps, and runs with checkpoints")
	only := flag.String("only", "", "parts to run, separated by commas: size, cold, cost, cost-without-journal, sweep, checkpoint, start")
	dir := flag.String("dir", "", "folder for databases; ten million rows take about 1 GB")
	flag.Parse()
	if err := lab.Measure(*dir, *only, s.parts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
