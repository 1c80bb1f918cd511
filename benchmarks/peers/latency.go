//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/openloop"
)

// shortly has rows expire soon, so that there is something to sweep.
var shortly = limit{1000, 15 * time.Second}

// plainShare is which part of the time that a Caddy with the limiter is measured for the
// one without is measured: it only shows what else the machine does.
const plainShare = 4

// latencies measures how long answers take under an open-loop load at half of the
// capacity: while the store is kept up, and in between.
func (b *bench) latencies(ctx context.Context) error {
	program, err := b.buildTally(ctx)
	if err != nil {
		return err
	}
	at := site{program: program, limit: shortly, gogc: "100", watched: true}
	for _, k := range []kase{rotation, newKeys} {
		fmt.Fprintf(os.Stderr, "latency, %s …\n", k.name)
		if err := b.underLoad(ctx, at, k); err != nil {
			return err
		}
	}
	return nil
}

// underLoad measures one case, without the limiter and with it.
func (b *bench) underLoad(ctx context.Context, at site, k kase) error {
	plain, r, err := b.startPair(ctx, at)
	if err != nil {
		return err
	}
	defer plain.stop()
	defer r.stop()

	keys := &keySender{keys: int64(k.keys)}
	capacity, err := b.capacity(ctx, r, keys)
	if err != nil {
		return err
	}
	if err := settle(ctx, []*running{r}); err != nil {
		return err
	}
	load := b.openLoop(keys, b.connections, capacity/2, b.latency/plainShare)
	base, err := send(ctx, plain, load)
	if err != nil {
		return err
	}
	load.Duration = b.latency
	watch := watchStore(r.database)
	got, err := send(ctx, r, load)
	seen := watch.stop()
	if err != nil {
		return err
	}
	if seen.sweep, err = readSweeps(r.processes[0].Log()); err != nil {
		return err
	}
	fmt.Printf("\n%s: %.0f requests per second, half of the capacity, over %d connections\n", k.name, capacity/2, b.connections)
	printLatencies(requestsOf(base), requestsOf(got), seen)
	return printFlaws(r, got)
}

// startPair starts a Caddy without the limiter and one with it.
func (b *bench) startPair(ctx context.Context, at site) (plain, with *running, err error) {
	at.side = without
	if plain, err = b.start(ctx, b.caddy(), at, 1); err != nil {
		return nil, nil, err
	}
	at.side = limited
	if with, err = b.start(ctx, b.caddy(), at, 1); err != nil {
		plain.stop()
	}
	return plain, with, err
}

// keySender makes requests with keys. Its next load goes on where the last one ended.
type keySender struct {
	keys int64 // in rotation; 0 never repeats one
	sent int64
}

// capacity returns how many requests per second a side answers, once each key in
// rotation has come.
func (b *bench) capacity(ctx context.Context, r *running, keys *keySender) (rate float64, err error) {
	for range warmUpRounds {
		got, err := send(ctx, r, b.openLoop(keys, b.connections, 0, b.period))
		if err != nil {
			return 0, err
		}
		rate = float64(len(got.Samples)) / b.period.Seconds()
		if keys.sent += int64(len(got.Samples)); keys.sent >= keys.keys {
			break
		}
	}
	return rate, nil
}

// openLoop returns a load.
func (b *bench) openLoop(keys *keySender, connections int, rate float64, d time.Duration) openloop.Load {
	return openloop.Load{Connections: connections, Rate: rate, Duration: d, Append: keys.from(keys.sent)}
}

// from returns what appends requests whose keys begin with the given one.
func (k *keySender) from(first int64) func([]byte, int64) []byte {
	return func(buffer []byte, number int64) []byte {
		key := first + number
		if k.keys > 0 {
			key %= k.keys
		}
		buffer = append(buffer, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Key: key-"...)
		return append(strconv.AppendInt(buffer, key, 10), "\r\n\r\n"...)
	}
}

// send sends a load to a side that is one process.
func send(ctx context.Context, r *running, load openloop.Load) (openloop.Result, error) {
	load.Dial = func() (net.Conn, error) { return net.Dial("tcp", r.addresses[0]) }
	return openloop.Run(ctx, load)
}

// printFlaws says what makes a result worth nothing.
func printFlaws(r *running, got openloop.Result) error {
	wrong := 0
	for _, s := range got.Samples {
		if s.Status != http.StatusOK {
			wrong++
		}
	}
	outages, err := r.processes[0].Logged(outage)
	if wrong > 0 || outages > 0 {
		fmt.Printf("VOID: %d answers were wrong, and the store couldn't be used %d times.\n", wrong, outages)
	}
	return err
}
