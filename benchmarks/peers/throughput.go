//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// throughput compares all servers with themselves in all cases.
func (b *bench) throughput(ctx context.Context) error {
	var outcomes []*outcome
	var left []string // out
	for _, s := range b.servers() {
		program, err := s.find(ctx)
		if err != nil {
			left = append(left, fmt.Sprintf("left out: %s: %v", s.name, strings.Join(strings.Fields(err.Error()), " ")))
			fmt.Println(left[len(left)-1])
			continue
		}
		got, err := b.compareCases(ctx, s, site{program: program})
		if err != nil {
			return err
		}
		outcomes = append(outcomes, got...)
	}
	fmt.Println()
	printOutcomes(outcomes)
	for _, line := range left {
		fmt.Println(line)
	}
	return nil
}

func (b *bench) compareCases(ctx context.Context, s server, at site) (outcomes []*outcome, err error) {
	for _, at.gogc = range b.gogcOf(s) {
		for _, k := range cases {
			if !slices.Contains(b.cases, k.name) {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s%s %s …\n", s.name, gogcOf(at.gogc), k.name)
			got, err := b.compare(ctx, s, at, k, 1)
			if err != nil {
				return nil, err
			}
			outcomes = append(outcomes, got...)
		}
	}
	return outcomes, nil
}

// gogcOf returns the values of GOGC that a server is run with.
func (b *bench) gogcOf(s server) list {
	if s.gogc {
		return b.gogc
	}
	return list{""}
}

// shared compares two Caddys that share a database with two that have no limiter. Each
// pair is sent keys in rotation, each process half of them at a time.
func (b *bench) shared(ctx context.Context) error {
	s := b.caddy()
	s.name, s.sides = "2 caddys, 1 file", []side{without, limited}
	program, err := s.find(ctx)
	if err != nil {
		return err
	}
	var outcomes []*outcome
	for _, gogc := range b.gogc {
		folder, err := b.folder()
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s%s …\n", s.name, gogcOf(gogc))
		at := site{program: program, gogc: gogc, shared: filepath.Join(folder, databaseFile)}
		got, err := b.compare(ctx, s, at, rotation, 2)
		if err != nil {
			return err
		}
		outcomes = append(outcomes, got...)
	}
	fmt.Println()
	printOutcomes(outcomes)
	return nil
}

// printOutcomes prints a line for each side with a limiter. Outcomes of a case follow
// each other, the one without a limiter first.
func printOutcomes(outcomes []*outcome) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "server\tGOGC\tcase\tlimiter\trequests/s, ratio\t(min to max)\tCPU/request\twithout\tratio\tresident\twithout\t")
	var plain *outcome
	for _, o := range outcomes {
		if o.side == without {
			plain = o
			continue
		}
		cpu, base := o.perRequest(), plain.perRequest()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f\t(%.2f to %.2f)\t%.1f µs\t%.1f µs\t%.2f\t%d MiB\t%d MiB\t%s\n",
			o.server, o.gogc, o.kase.name, o.side,
			median(o.ratios), slices.Min(o.ratios), slices.Max(o.ratios),
			micros(cpu), micros(base), float64(cpu)/float64(base), o.resident>>10, plain.resident>>10, o.flaws(plain))
	}
}

// wrkFull is from which share of the time on wrk can't send more.
const wrkFull = 0.9

// flaws says what makes an outcome worth less, or nothing.
func (o *outcome) flaws(plain *outcome) (text string) {
	if max(o.busy, plain.busy) > wrkFull {
		text = " wrk could send no more: read CPU/request."
	}
	for _, of := range []*outcome{o, plain} {
		if share := float64(of.wrong) / float64(max(1, of.requests)); share > 0.001 {
			text += fmt.Sprintf(" VOID: %.1f %% of the answers were wrong, %s.", 100*share, of.side)
		}
	}
	if o.outages > 0 {
		text += fmt.Sprintf(" VOID: the store couldn't be used %d times.", o.outages)
	}
	return text
}
