//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
)

// throughputTable is what comparisons have shown.
type throughputTable struct {
	outcomes []*outcome // those of a case follow each other, the one without a limiter first
	leftOut  []string
}

// leaveOut notes that something couldn't be measured, and why.
func (t *throughputTable) leaveOut(what string, err error) {
	line := fmt.Sprintf("left out: %s: %s", what, strings.Join(strings.Fields(err.Error()), " "))
	t.leftOut = append(t.leftOut, line)
	fmt.Fprintln(os.Stderr, line)
}

// print prints a line for each side with a limiter.
func (t *throughputTable) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nserver\tGOGC\tcase\tlimiter\trequests/s, ratio (min to max)\tCPU/request\twithout\tratio\tresident\twithout\t")
	var plain *outcome
	for _, o := range t.outcomes {
		if o.side == without {
			plain = o
			continue
		}
		cpu, base := o.perRequest(), plain.perRequest()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.1f µs\t%.1f µs\t%.2f\t%d MiB\t%d MiB\t%s\n",
			o.server, o.gogc, o.kase.name, o.side,
			stats.Spread(o.ratios), stats.Micros(cpu), stats.Micros(base), stats.Ratio(cpu, base), o.resident>>10, plain.resident>>10, o.flaws(plain))
	}
	w.Flush()
	for _, line := range t.leftOut {
		fmt.Println(line)
	}
}

// flaws says what makes an outcome worth less, or nothing.
func (o *outcome) flaws(plain *outcome) string {
	var flaws []string
	if o.sending > o.cpu || plain.sending > plain.cpu {
		flaws = append(flaws, "sending took longer than answering: read CPU/request")
	}
	for _, of := range []*outcome{o, plain} {
		if share := float64(of.wrong) / float64(max(1, of.requests)); share > 0.001 {
			flaws = append(flaws, fmt.Sprintf("VOID: %.1f %% of the answers were wrong, %s", 100*share, of.side))
		}
	}
	if o.outages > 0 {
		flaws = append(flaws, fmt.Sprintf("VOID: the store couldn't be used %d times", o.outages))
	}
	return strings.Join(flaws, "; ")
}
