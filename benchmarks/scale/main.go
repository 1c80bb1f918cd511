//go:build unix

// Command scale measures how the store holds up as it grows: bytes per row, and the processor time of
// claims with ten thousand to ten million rows. What is compared is measured in turn, in one run.
package main

import (
	"context"
	"flag"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// smallest is the database that larger ones are compared to.
const smallest = 10_000

// settings are what the flags say.
type settings struct {
	rows    int    // in the largest database
	scratch string // folder for databases
}

func main() {
	var s settings
	flag.IntVar(&s.rows, "rows", 10_000_000, "rows in the largest database")
	dir := flag.String("dir", "", "folder for databases; ten million rows take about 1 GB")
	flag.Parse()
	lab.Measure(*dir, func(ctx context.Context, scratch string) error {
		s.scratch = scratch
		if err := s.size(ctx); err != nil {
			return err
		}
		var databases []*database
		for rows := smallest; rows <= s.rows; rows *= 10 {
			d, err := filled(ctx, s, rows)
			if err != nil {
				return err
			}
			databases = append(databases, d)
		}
		for _, journal := range []string{"on", "off"} {
			for _, keys := range []string{knownKeys, newKeys} {
				if err := s.cost(ctx, databases, keys, journal); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
