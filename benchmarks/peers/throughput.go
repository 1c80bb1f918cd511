//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
				if slices.Contains(b.cases, k.name) {
					b.compareInto(ctx, &t, s, site{program: program, gogc: gogc}, k, 1)
				}
			}
		}
	}
	t.print()
	return ctx.Err()
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
	var t throughputTable
	for _, gogc := range b.gogc {
		folder, err := b.folder()
		if err != nil {
			return err
		}
		at := site{program: program, gogc: gogc, shared: filepath.Join(folder, databaseFile)}
		b.compareInto(ctx, &t, s, at, rotation, 2)
	}
	t.print()
	return ctx.Err()
}

// compareInto adds one case of a server to a table. If it fails, for example because a
// server takes all memory and is killed, the others are measured nevertheless.
func (b *bench) compareInto(ctx context.Context, t *throughputTable, s server, at site, k kase, processes int) {
	if ctx.Err() != nil {
		return
	}
	name := fmt.Sprintf("%s%s %s", s.name, gogcOf(at.gogc), k.name)
	fmt.Fprintln(os.Stderr, name, "…")
	outcomes, err := b.compare(ctx, s, at, k, processes)
	if err != nil {
		t.leaveOut(name, err)
		return
	}
	t.outcomes = append(t.outcomes, outcomes...)
}
