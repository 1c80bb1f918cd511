//go:build linux

// Command latency measures how long answers take at half of the capacity: of a Caddy with a limiter beside one without,
// in turn each second, so that other work of the machine meets both. Each process is measured twice, as two halves that
// alternate: their difference is the spread, and less than the spread is no result.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
)

// rotation is how many keys come in turn in the case of known keys.
const rotation = 100_000

const zone = `rate_limit {
			zone keys {
				per key {http.request.header.X-Key}
				limit 1000/1m
			}
		}`

func main() {
	var caddys lab.List
	seconds := flag.Int("seconds", 20, "seconds of each Caddy and case")
	flag.Var(&caddys, "caddy", "programs with this module, with commas between")
	flag.Parse()
	lab.Measure("", func(ctx context.Context, scratch string) error {
		if len(caddys) == 0 {
			return errors.New("-caddy names no program, such as go build ./cmd/caddy makes")
		}
		return measure(ctx, scratch, caddys, *seconds)
	})
}

// side is a Caddy that is measured, and the next key.
type side struct {
	name, address string
	sent          atomic.Int64
}

func measure(ctx context.Context, scratch string, caddys []string, seconds int) error {
	for _, keys := range []int64{rotation, 0} {
		for _, connections := range []int{1, 64} {
			sides, stop, err := start(ctx, scratch, caddys)
			if err == nil {
				err = measureCase(ctx, sides, keys, connections, seconds)
			}
			stop()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts a Caddy without the limiter, and each program with it.
func start(ctx context.Context, scratch string, caddys []string) (sides []*side, stop func(), err error) {
	var started []*process.Process
	stop = func() {
		for _, p := range started {
			p.Stop()
		}
	}
	for i, program := range append([]string{caddys[0]}, caddys...) {
		folder, err := os.MkdirTemp(scratch, "caddy-")
		if err != nil {
			return nil, stop, err
		}
		port, err := process.FreePort()
		if err != nil {
			return nil, stop, err
		}
		s, global, limiter := &side{name: "without", address: process.Address(port)}, "", ""
		if i > 0 {
			s.name = filepath.Base(program)
			global, limiter = fmt.Sprintf("rate_limit {\n\t\tstore sqlite %s\n\t}", filepath.Join(folder, "tally.db")), zone
		}
		p, err := process.StartCaddy(ctx, folder, program, port, global, limiter)
		if err != nil {
			return nil, stop, err
		}
		started = append(started, p)
		if err := p.Await(s.address); err != nil {
			return nil, stop, err
		}
		sides = append(sides, s)
	}
	return sides, stop, nil
}

// measureCase measures all sides with one kind of keys, at half of the capacity of the last one.
func measureCase(ctx context.Context, sides []*side, keys int64, connections, seconds int) error {
	last := sides[len(sides)-1]
	for _, s := range sides { // known keys become known
		for s.sent.Load() < keys {
			if _, err := s.run(ctx, keys, 64, 0, time.Second); err != nil {
				return err
			}
		}
	}
	took, err := last.run(ctx, keys, connections, 0, 2*time.Second)
	if err != nil {
		return err
	}
	rate := float64(len(took)) / 2 / 2
	halves := make([][2][]time.Duration, len(sides))
	for second := range seconds {
		for i := range sides {
			if second%2 == 1 {
				i = len(sides) - 1 - i
			}
			took, err := sides[i].run(ctx, keys, connections, rate, time.Second)
			if err != nil {
				return err
			}
			half := &halves[i][second/2%2]
			*half = append(*half, took...)
		}
	}
	what := "new keys"
	if keys > 0 {
		what = "rotation"
	}
	fmt.Printf("\n%s, %d connections, %.0f requests per second; two halves of each\n", what, connections, rate)
	for i, s := range sides {
		fmt.Printf("%-10s", s.name)
		for _, share := range []float64{.5, .99, .999} {
			fmt.Printf("  p%g %v %v", 100*share, percentile(halves[i][0], share), percentile(halves[i][1], share))
		}
		fmt.Println()
	}
	return nil
}

func percentile(took []time.Duration, share float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[int(share*float64(len(took)-1))].Round(time.Microsecond)
}

// run sends requests at a rate, or as fast as they are answered if that is 0, and returns how long the answers took. A
// request that comes late, because the one before it took long, counts from when it was due.
func (s *side) run(ctx context.Context, keys int64, connections int, rate float64, lasts time.Duration) ([]time.Duration, error) {
	begin, all, errs := time.Now(), make([][]time.Duration, connections), make([]error, connections)
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				errs[i] = err
				return
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for n := 0; ctx.Err() == nil && time.Since(begin) < lasts; n++ {
				due := time.Now()
				if rate > 0 {
					due = begin.Add(time.Duration((float64(n) + float64(i)/float64(connections)) * float64(connections) / rate * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				if errs[i] = s.ask(conn, answers, keys); errs[i] != nil {
					return
				}
				all[i] = append(all[i], time.Since(due))
			}
		})
	}
	wg.Wait()
	return slices.Concat(all...), errors.Join(append(errs, ctx.Err())...)
}

// ask sends one request, and reads its answer, which has a short body.
func (s *side) ask(conn net.Conn, answers *bufio.Reader, keys int64) error {
	key := s.sent.Add(1) - 1
	if keys > 0 {
		key %= keys
	}
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\nX-Key: key-" + strconv.FormatInt(key, 10) + "\r\n\r\n")); err != nil {
		return err
	}
	for first := true; ; first = false {
		line, err := answers.ReadString('\n')
		if err != nil {
			return err
		}
		if first && !strings.Contains(line, " 200 ") {
			return fmt.Errorf("%s answered %q", s.name, strings.TrimSpace(line))
		}
		if line == "\r\n" {
			_, err := answers.Discard(len("hello"))
			return err
		}
	}
}
