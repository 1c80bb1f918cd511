//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// trips are by how much machines are away from Redis.
var trips = []time.Duration{0, time.Millisecond, 20 * time.Millisecond}

const (
	latencyAmount  = 1_000_000_000
	coldClients    = 64
	coldPerSecond  = 8 * coldClients
	coldPeriod     = 3 * time.Second
	warmPeriod     = 500 * time.Millisecond
	latencyRepeats = 3
	pings          = 50
)

// A latencyRow is what decisions took at a distance: medians of all repeats, in microseconds.
type latencyRow struct {
	trip           time.Duration
	ping           []float64
	warm50, warm99 []float64
	cold50, cold99 []float64
	wrong          int64
}

// latency measures how long decisions take that memory makes, and how long those of new keys,
// which ask Redis.
func (s *settings) latency(ctx context.Context) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\ndelay\tround trip (PING p50)\twarm p50\twarm p99\tcold p50\tcold p99\t(min to max)\tasked at most\t")
	for _, trip := range trips {
		r, err := s.latencyOf(ctx, trip)
		if err != nil {
			return err
		}
		r.print(w)
	}
	w.Flush()
	fmt.Println("Asked: warm p50 below 2 µs; cold p99 at most 2 round trips and 2 ms. Times are medians of", latencyRepeats, "repeats.")
	return ctx.Err()
}

func (r *latencyRow) print(w io.Writer) {
	flaws := ""
	if r.wrong > 0 {
		flaws = fmt.Sprintf("VOID: %d decisions were made without Redis", r.wrong)
	}
	ping := stats.Median(r.ping)
	fmt.Fprintf(w, "%v\t%.0f µs\t%.2f µs\t%.2f µs\t%.0f µs\t%.0f µs\t(%.0f to %.0f)\t%.0f µs\t%s\n", r.trip, ping,
		stats.Median(r.warm50), stats.Median(r.warm99), stats.Median(r.cold50), stats.Median(r.cold99),
		slices.Min(r.cold99), slices.Max(r.cold99), 2*ping+2000, flaws)
}

// pingBy returns the median time of PINGs by way of an address, in microseconds.
func pingBy(ctx context.Context, address string) (float64, error) {
	client, err := connect(address)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var took stats.Histogram
	for range pings {
		start := time.Now()
		if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
			return 0, err
		}
		took.Add(time.Since(start))
	}
	return stats.Micros(took.Percentile(.5)), nil
}

// latencyOf measures at a distance.
func (s *settings) latencyOf(ctx context.Context, trip time.Duration) (r latencyRow, err error) {
	r.trip = trip
	var proxy *testserver.Proxy
	as := setup{Way: tally, Amount: latencyAmount, Window: time.Minute}
	side, err := s.startSide(ctx, 1, as, func(to string) (string, error) {
		if proxy, err = testserver.NewProxy(to); err != nil {
			return "", err
		}
		proxy.SetDelay(trip / 2)
		return "127.0.0.1:" + proxy.Port, nil
	})
	if proxy != nil {
		defer proxy.Close()
	}
	if err != nil {
		return r, err
	}
	defer side.stop()
	for range latencyRepeats {
		if err := r.repeat(ctx, side, "127.0.0.1:"+proxy.Port); err != nil {
			return r, err
		}
	}
	return r, nil
}

// repeat measures everything once.
func (r *latencyRow) repeat(ctx context.Context, side *side, address string) error {
	ping, err := pingBy(ctx, address)
	if err != nil {
		return err
	}
	warm := workload{Keys: hotKey, Goroutines: 1, Load: load.Load{Duration: warmPeriod / 5}}
	if _, err := side.measure(warm); err != nil { // which was idle
		return err
	}
	warm.Duration = warmPeriod
	known, err := side.measure(warm)
	if err != nil {
		return err
	}
	fresh, err := side.measure(workload{Keys: newKeys, Goroutines: coldClients, Load: load.Load{Rate: coldPerSecond, Jitter: true, Duration: coldPeriod}})
	if err != nil {
		return err
	}
	r.ping = append(r.ping, ping)
	warmTook, coldTook := known.All(), fresh.All()
	r.warm50 = append(r.warm50, stats.Micros(warmTook.Percentile(.5)))
	r.warm99 = append(r.warm99, stats.Micros(warmTook.Percentile(.99)))
	r.cold50 = append(r.cold50, stats.Micros(coldTook.Percentile(.5)))
	r.cold99 = append(r.cold99, stats.Micros(coldTook.Percentile(.99)))
	r.wrong += known.Count(wrong) + fresh.Count(wrong)
	return nil
}
