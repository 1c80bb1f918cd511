//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// throughput compares all servers with themselves in all cases.
func (b *bench) throughput(ctx context.Context) error {
	var t throughputTable
	for _, s := range b.servers() {
		program, err := s.find(ctx)
		if err != nil {
			t.leaveOut(s.name, err)
			continue
		}
		s.printVersion(ctx, program)
		for _, gogc := range b.gogcOf(s) {
			for _, k := range cases {
				if slices.Contains(b.cases, k.name) && (s.processes < 2 || k == rotation) {
					b.compareInto(ctx, &t, s, site{program: program, gogc: gogc}, k)
				}
			}
		}
	}
	t.print()
	return ctx.Err()
}

// gogcOf returns the values of GOGC that a server is run with.
func (b *bench) gogcOf(s server) lab.List {
	if s.gogc {
		return b.gogc
	}
	return lab.List{""}
}

// compareInto adds one case of a server to a table. If it fails, for example because a
// server takes all memory and is killed, the others are measured nevertheless.
func (b *bench) compareInto(ctx context.Context, t *throughputTable, s server, at site, k kase) {
	if ctx.Err() != nil {
		return
	}
	name := fmt.Sprintf("%s%s %s", s.name, gogcOf(at.gogc), k.name)
	fmt.Fprintln(os.Stderr, name, "…")
	outcomes, err := b.compare(ctx, s, at, k)
	if err != nil {
		t.leaveOut(name, err)
		return
	}
	t.outcomes = append(t.outcomes, outcomes...)
}
