//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
)

// A server is a program that answers requests, with a limiter or without.
type server struct {
	name  string
	sides []side // how it is run; the first has no limiter
	gogc  bool   // whether it is written in Go, and is measured with each value of GOGC

	store func(context.Context, site, *running) (text string, err error) // starts a server for the counts; nil if there is none

	processes int // that share a database, and get keys in rotation only; 0: one with its own

	version string // the argument with which it says its version

	// find returns the program, or why there is none.
	find func(context.Context) (program string, err error)
	// start starts the program.
	start func(context.Context, site) (*process.Process, error)
}

// printVersion prints the first line of what a server says about its version.
func (s server) printVersion(ctx context.Context, program string) {
	said, _ := exec.CommandContext(ctx, program, s.version).CombinedOutput()
	line, _, _ := strings.Cut(string(said), "\n")
	fmt.Printf("%s: %s\n", s.name, line)
}

// A side is a way to run a server.
type side string

const (
	without    side = "without"
	limited    side = "limited"
	headersOn  side = "headers on" // as limited; clients are told how much is left
	headersOff side = "headers off"
	historyOff side = "history off"
)

// A site is what a server is started with.
type site struct {
	program string
	side    side
	limit   limit
	keys    int    // of requests, in rotation; 0 never repeats one
	cold    bool   // see kase
	gogc    string // empty for servers that aren't in Go
	folder  string // for what it keeps; it exists
	port    int
	swept   bool // whether Caddy sweeps often

	database string // a Caddy's counts; processes of a side share it
	store    string // the store of a Caddy's counts, if it isn't that database
}

// env returns what the environment of the process says beside ours.
func (s site) env() []string {
	if s.gogc == "" {
		return nil
	}
	return []string{"GOGC=" + s.gogc}
}

var serverNames = lab.List{"caddy", "pair", "redis", "postgres", "incumbent", "nginx", "haproxy"}

// servers returns the servers to measure.
func (b *bench) servers() (chosen []server) {
	for _, s := range []server{b.caddy(), b.pair(), b.on("redis", startRedis), b.on("postgres", startPostgres), b.incumbentCaddy(), nginx, haproxy} {
		if slices.Contains(b.settings.servers, s.name) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// running is a side of a server that runs, as one process or several.
type running struct {
	side      side
	addresses []string
	processes []*process.Process
	keys      keySender
	stopStore func()
}

// start starts a side of a server.
func (b *bench) start(ctx context.Context, s server, at site) (r *running, err error) {
	r = &running{side: at.side, keys: keySender{keys: int64(at.keys), cold: at.cold}, stopStore: func() {}}
	for range max(1, s.processes) {
		if at.folder, err = b.folder(); err == nil {
			at.database = cmp.Or(at.database, filepath.Join(at.folder, "tally.db")) // the first one's
			at.port, err = process.FreePort()
		}
		if err == nil && s.store != nil && at.side != without && at.store == "" {
			at.store, err = s.store(ctx, at, r)
		}
		var p *process.Process
		if err == nil {
			p, err = s.start(ctx, at)
		}
		if err == nil {
			r.processes = append(r.processes, p)
			r.addresses = append(r.addresses, process.Address(at.port))
			err = p.Await(process.Address(at.port))
		}
		if err != nil {
			r.stop()
			return nil, fmt.Errorf("%s, %s: %w", s.name, at.side, err)
		}
	}
	return r, nil
}

func (r *running) stop() {
	for _, p := range r.processes {
		p.Stop()
	}
	r.stopStore()
}

// folder makes a folder for a process.
func (b *bench) folder() (string, error) {
	b.folders++
	path := filepath.Join(b.scratch, strconv.Itoa(b.folders))
	return path, os.Mkdir(path, 0o700)
}
