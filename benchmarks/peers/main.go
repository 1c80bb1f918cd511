//go:build linux

// Command peers measures rate limiters of web servers side by side: this one in Caddy,
// mholt/caddy-ratelimit in Caddy, limit_req in nginx, and stick tables in HAProxy. Each
// is compared with the same server without a limiter, which answers the same, in turn
// (A B B A …): what is measured in one run on one machine can be compared as a ratio.
//
// Servers that are missing are left out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
)

// settings are what the flags say.
type settings struct {
	servers, cases lab.List
	repeats        int
	period         time.Duration // of one measurement
	connections    int           // that are kept open
	tally          lab.List      // Caddys with this module that are built already
	incumbent      string        // one with mholt/caddy-ratelimit
	scratch        string
}

func main() {
	s := settings{servers: lab.List{"caddy", "incumbent", "nginx", "haproxy"}}
	for _, k := range cases {
		s.cases = append(s.cases, k.name)
	}
	flag.Var(&s.servers, "servers", "servers to measure")
	flag.Var(&s.cases, "cases", "cases to measure")
	flag.IntVar(&s.repeats, "repeats", 5, "measurements of each side")
	flag.DurationVar(&s.period, "period", 3*time.Second, "how long one measurement takes")
	flag.IntVar(&s.connections, "connections", 64, "connections that are kept open")
	flag.Var(&s.tally, "caddy", "Caddys with this module that are built already, with commas between; several are compared with each other")
	flag.StringVar(&s.incumbent, "incumbent", "", "Caddy with mholt/caddy-ratelimit that is built already")
	flag.Parse()
	fmt.Printf("repeats: %d of %v, %d connections\n", s.repeats, s.period, s.connections)
	lab.Measure("", s.measure)
}

// measure compares all servers with themselves in all cases. What fails, for example because a server
// takes all memory and is killed, is left out.
func (s *settings) measure(ctx context.Context, scratch string) error {
	s.scratch = scratch
	var rows, leftOut []string
	for _, server := range s.all() {
		if !slices.Contains(s.servers, server.name) {
			continue
		}
		programs, err := server.find(ctx)
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("left out: %s: %v", server.name, err))
			continue
		}
		version, _ := exec.CommandContext(ctx, programs[0], server.version).CombinedOutput()
		line, _, _ := strings.Cut(string(version), "\n")
		fmt.Printf("%s: %s\n", server.name, line)
		for _, k := range cases {
			if !slices.Contains(s.cases, k.name) || ctx.Err() != nil {
				continue
			}
			fmt.Fprintln(os.Stderr, server.name, k.name, "…")
			row, err := s.compare(ctx, server, programs, k)
			if err != nil {
				leftOut = append(leftOut, fmt.Sprintf("left out: %s %s: %v", server.name, k.name, err))
				continue
			}
			rows = append(rows, row)
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nserver\tcase\tlimiter\trequests/s, ratio (min to max)\tCPU/request\twithout\trounds (min to max)\tratio\tresident\twithout\t")
	fmt.Fprint(w, strings.Join(rows, ""))
	_ = w.Flush()
	fmt.Println(strings.Join(leftOut, "\n"))
	return ctx.Err()
}

// buildTally returns the Caddys with this module.
func (s *settings) buildTally(ctx context.Context) ([]string, error) {
	if len(s.tally) > 0 {
		return s.tally, nil
	}
	root, err := lab.Root(ctx)
	if err != nil {
		return nil, err
	}
	s.tally = lab.List{filepath.Join(s.scratch, "caddy")}
	_, err = lab.Go(ctx, root, "build", "-o", s.tally[0], "./cmd/caddy")
	return s.tally, err
}
