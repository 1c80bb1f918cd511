//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/openloop"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
)

// requestsOf returns when each request was due, and when it was answered.
func requestsOf(r openloop.Result) spans {
	requests := make(spans, len(r.Samples))
	for i, s := range r.Samples {
		requests[i] = span{r.Start.Add(s.Due), r.Start.Add(s.Due + s.Took)}
	}
	return requests
}

// printLatencies prints what answers took without the limiter, and with it, by what went
// on in the meantime.
func printLatencies(plain, requests spans, seen upkeep) {
	t := latencyTable{tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, "limiter\twhile\tof the time\tanswers\tp50\tp99\tp99.9\tmost")
	t.row("without", "always", 1, plain.lengths())
	t.row("with", "always", 1, requests.lengths())
	whole := requests.extent()
	for _, kind := range []struct {
		while string
		spans spans
	}{{"checkpoint", seen.checkpoint}, {"write", seen.write}, {"sweep", seen.sweep}} {
		during, _ := requests.split(kind.spans)
		t.row("with", kind.while, kind.spans.share(whole), during.lengths())
	}
	upkeep := seen.any(whole).until(requests)
	inside, outside := requests.split(upkeep)
	during, between := inside.lengths(), outside.lengths()
	t.row("with", "any of these", upkeep.share(whole), during)
	t.row("with", "between them", 1-upkeep.share(whole), between)
	t.w.Flush()
	if seen.writesAlways(whole) {
		fmt.Println("(The log was written most of the time: by claims. So a write isn't one of these.)")
	}
	fmt.Printf("ratio of any of these to between them: p99 %.2f, p99.9 %.2f\n",
		stats.Ratio(stats.Percentile(during, .99), stats.Percentile(between, .99)), stats.Ratio(stats.Percentile(during, .999), stats.Percentile(between, .999)))
}

// latencyTable is a table of what answers took.
type latencyTable struct{ w *tabwriter.Writer }

// row writes a line about answers that took some sorted times, and came in a share of
// the time.
func (t latencyTable) row(limiter, while string, share float64, took []time.Duration) {
	fmt.Fprintf(t.w, "%s\t%s\t%.1f %%\t%d\t%.0f µs\t%.0f µs\t%.0f µs\t%.0f µs\n", limiter, while, 100*share, len(took),
		stats.Micros(stats.Percentile(took, .5)), stats.Micros(stats.Percentile(took, .99)), stats.Micros(stats.Percentile(took, .999)), stats.Micros(stats.Percentile(took, 1)))
}

// lengths returns how long the spans are, sorted.
func (s spans) lengths() []time.Duration {
	lengths := make([]time.Duration, len(s))
	for i, e := range s {
		lengths[i] = e.to.Sub(e.from)
	}
	slices.Sort(lengths)
	return lengths
}
