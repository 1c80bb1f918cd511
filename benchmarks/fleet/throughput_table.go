//go:build linux

package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
)

// printThroughput prints a line for each way in each case.
func printThroughput(rows []row) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nmachines\tgoroutines\tcase\tway\trequests/s\tmean\tto incrby (min to max)\tto script (min to max)\tRedis CPU\tmachine CPU\tcommands\tp50\tp99\trefused\t")
	for _, r := range rows {
		for _, o := range r.outcomes {
			took := o.all.All()
			fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%.0f\t%.0f\t%s\t%s\t%.2f µs\t%.2f µs\t%.4f\t%v\t%v\t%.0f %%\t%s\n",
				r.machines, r.goroutines, r.kase, o.way, stats.Median(o.rates), o.all.rate(), beside(o, r.outcomes[0]), beside(o, r.outcomes[1]),
				o.perRequest(o.all.redis.cpu), o.perRequest(o.all.CPU), float64(o.all.redis.commands)/float64(max(1, o.all.requests())),
				short(took.Percentile(.5)), short(took.Percentile(.99)), 100*o.all.refused(), o.all.flaws())
		}
	}
	w.Flush()
	fmt.Println("CPU and commands are per request, and include what goes on between requests.")
}

// perRequest returns which part of a time a request took, in microseconds.
func (o *outcome) perRequest(d time.Duration) float64 {
	return stats.Micros(d) / float64(max(1, o.all.requests()))
}

// refused returns the share of requests that were refused.
func (m *measurement) refused() float64 {
	return float64(m.Count(refused, wrong)) / float64(max(1, m.requests()))
}

// beside returns the throughput of a way as a multiple of another's: the median, the least and the
// largest of the rounds.
func beside(o, base *outcome) string {
	var ratios []float64
	for i, rate := range o.rates {
		ratios = append(ratios, rate/base.rates[i])
	}
	return stats.Spread(ratios)
}

// flaws says what makes a measurement worth less, or nothing.
func (m *measurement) flaws() string {
	if m.Count(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("VOID: %d of %d decisions were made without Redis", m.Count(wrong), m.requests())
}

// short rounds a time to three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
