//go:build linux

// Command footprint measures what this module adds to a Caddy that has nothing to do: to its
// binary, its memory and the time of its start. A Caddy with the standard modules only is measured
// in turn with one that also has this module and the default store.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// settings are what the flags say.
type settings struct {
	rows    int // in the database of starts
	keys    int // that have come to the last side
	repeats int
	scratch string
	caddys  [2]string // the programs: plain, and with this module
}

func main() {
	var s settings
	flag.IntVar(&s.rows, "rows", 1_000_000, "rows in the database that Caddy starts with")
	flag.IntVar(&s.keys, "keys", 100_000, "keys whose memory is measured")
	flag.IntVar(&s.repeats, "repeats", 7, "starts of each kind")
	flag.Parse()
	os.Setenv("CGO_ENABLED", "0") // for builds, as releases are built
	lab.Measure("", func(ctx context.Context, scratch string) error {
		s.scratch = scratch
		for _, part := range []func(context.Context) error{s.size, s.memory, s.start} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// size builds both programs and compares their sizes.
func (s *settings) size(ctx context.Context) error {
	var sizes [2]float64
	root, err := lab.Root(ctx)
	if err != nil {
		return err
	}
	for i, module := range []string{"", lab.Module} {
		s.caddys[i] = filepath.Join(s.scratch, []string{"plain", "tally"}[i])
		args, err := lab.Program(root, s.scratch, module)
		if err == nil {
			_, err = lab.Go(ctx, root, append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", s.caddys[i]}, args...)...)
		}
		if err == nil {
			err = evict(s.caddys[i])
		}
		if err != nil {
			return err
		}
		info, err := os.Stat(s.caddys[i])
		if err != nil {
			return err
		}
		sizes[i] = mebi(info.Size())
	}
	fmt.Printf("binary, MiB: %.2f plain, %.2f with the module, %.2f more (target 8)\n", sizes[0], sizes[1], sizes[1]-sizes[0])
	return nil
}

// evict drops a file from the system's cache. How large the pieces are that the cache has of it, and so
// how many pages become resident with one that is touched, depends on how it was written; when it is
// read again it is as after the start of a machine.
func evict(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// sides are the Caddys that are compared.
var sides = []side{{name: "plain"}, {name: "module unused", tally: true}, {name: "a zone", tally: true, zone: true},
	{name: "many keys", tally: true, zone: true, keys: true}}

// side is a way to run a Caddy.
type side struct {
	name        string
	tally, zone bool
	keys        bool // many have come, each once
}

// memory compares the resident memory of Caddys that have answered one request.
func (s *settings) memory(ctx context.Context) error {
	parts := make([]map[string][]float64, len(sides))
	for round := range s.repeats {
		for _, i := range lab.Turns(len(sides), round) {
			folder, err := os.MkdirTemp(s.scratch, "idle-")
			if err != nil {
				return err
			}
			idle, err := s.idleMemory(ctx, folder, sides[i])
			if err != nil {
				return err
			}
			if parts[i] == nil {
				parts[i] = make(map[string][]float64)
			}
			for part, bytes := range idle {
				parts[i][part] = append(parts[i][part], mebi(bytes))
			}
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "resident, MiB\town\tprogram\tother files\tall\tmore than plain (target 6)\t")
	plain := lab.Median(parts[0][all])
	for i, side := range sides {
		p := parts[i]
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%s\t%.1f\t\n", side.name, lab.Median(p[own]), lab.Median(p[binary]), lab.Median(p[other]),
			lab.Spread(p[all]), lab.Median(p[all])-plain)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	gained := lab.Median(parts[3][all]) - lab.Median(parts[2][all])
	fmt.Printf("each of %d keys, over one: %.0f B resident\n", s.keys, gained*(1<<20)/float64(s.keys))
	return nil
}

func mebi(bytes int64) float64 { return float64(bytes) / (1 << 20) }
