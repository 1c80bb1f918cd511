//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
)

// A setup is what a machine is told first.
type setup struct {
	Way     string
	Address string // of Redis
	Folder  string // with the secret of all machines
	Machine int    // its number
	Keys    int    // in rotation
	Amount  int64  // of the limit
	Window  time.Duration
	Timeout time.Duration // how long this module's way waits for Redis
}

// childFlag is how a program is called to be a machine.
const childFlag = "-child"

func isChild() bool { return len(os.Args) > 1 && os.Args[1] == childFlag }

// runChild is the program of a machine. It reads a setup and then loads, and answers each with a
// report, until there are no more.
func runChild() int {
	err := serve(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout))
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "machine:", err)
		return 1
	}
	return 0
}

func serve(in *json.Decoder, out *json.Encoder) error {
	var s setup
	if err := in.Decode(&s); err != nil {
		return err
	}
	w, err := newWay(s)
	if err != nil {
		return errors.Join(err, out.Encode(report{Failure: err.Error()}))
	}
	defer w.close()
	if err := out.Encode(report{}); err != nil {
		return err
	}
	c := child{setup: s, way: w, sent: int64(s.Machine) * int64(s.Keys) / 3}
	for {
		var l workload
		if err := in.Decode(&l); err != nil {
			return err
		}
		if err := out.Encode(c.send(l)); err != nil {
			return err
		}
	}
}

// A workload is the requests that come to a machine.
type workload struct {
	load.Load
	Keys       string
	Goroutines int // that ask
}

// The kinds of answers.
const (
	allowed load.Kind = iota
	refused
	wrong // decided without Redis, or not at all
)

// A report is how requests were answered.
type report struct {
	load.Report
	CPU     time.Duration // that the machine took
	Failure string        // why nothing could be measured
}

func (r *report) merge(other *report) {
	r.Report.Merge(&other.Report)
	r.CPU += other.CPU
	r.Failure = cmp.Or(r.Failure, other.Failure)
}

// A child is a machine while it runs.
type child struct {
	setup
	way  way
	sent int64 // requests; machines begin at different places of the rotation
}

// send sends the requests of a load.
func (c *child) send(l workload) (r report) {
	clients := make([]load.Client, l.Goroutines)
	for i := range clients {
		clients[i] = c.client(l, i)
	}
	cpu := lab.CPU()
	if len(clients) == 0 {
		time.Sleep(l.Duration) // the machine is idle
		r.Elapsed = l.Duration
	} else {
		r.Report, _ = load.Run(context.Background(), l.Load, clients) // clients count errors
	}
	c.sent += r.Count(allowed, refused, wrong)
	r.CPU = lab.CPU() - cpu
	return r
}

// client returns the client that asks in a goroutine.
func (c *child) client(l workload, goroutine int) load.Client {
	keys, decide, first := newKeyer(c.setup, goroutine), c.way.decider(), c.sent
	return func(ctx context.Context, number int64) (load.Kind, error) {
		ok, err := decide(ctx, keys.key(l, first+number))
		switch {
		case err != nil:
			return wrong, nil
		case ok:
			return allowed, nil
		}
		return refused, nil
	}
}
