//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// A machine is a process that limits requests.
type machine struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// startMachine starts a machine, which is killed when ctx ends.
func startMachine(ctx context.Context, s setup) (*machine, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &machine{command: exec.CommandContext(ctx, program, childFlag)}
	m.command.Stderr = os.Stderr
	if m.in, err = m.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.out = json.NewDecoder(out)
	if err := m.command.Start(); err != nil {
		return nil, err
	}
	if _, err := m.ask(s); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

// ask sends a setup or a load, and waits for the report.
func (m *machine) ask(what any) (r report, err error) {
	if err := json.NewEncoder(m.in).Encode(what); err != nil {
		return r, err
	}
	if err := m.out.Decode(&r); err != nil {
		return r, err
	}
	if r.Failure != "" {
		err = errors.New(r.Failure)
	}
	return r, err
}

// stop ends the machine and waits until it has ended.
func (m *machine) stop() {
	_ = m.in.Close()
	_ = m.command.Wait()
}

// A side is one way of limiting: machines, and the Redis that they share.
type side struct {
	name     string
	server   *server
	machines []*machine
}

// startSide starts a side of so many machines. The way, the number of keys and the limit are those
// of a setup. If there is a proxy, machines connect to that.
func (s *settings) startSide(ctx context.Context, machines int, as setup, proxy func(address string) (string, error)) (*side, error) {
	server, err := startServer(ctx, s.scratch)
	if err != nil {
		return nil, err
	}
	made := &side{name: as.Way, server: server}
	as.Address, as.Folder, as.Keys = server.address, filepath.Join(s.scratch, "secret"), s.keys
	as.Timeout = s.timeout
	if proxy != nil {
		if as.Address, err = proxy(server.address); err != nil {
			made.stop()
			return nil, err
		}
	}
	if err := os.MkdirAll(as.Folder, 0o700); err != nil {
		made.stop()
		return nil, err
	}
	for as.Machine = range machines {
		m, err := startMachine(ctx, as)
		if err != nil {
			made.stop()
			return nil, fmt.Errorf("%s, machine %d: %w", as.Way, as.Machine, err)
		}
		made.machines = append(made.machines, m)
	}
	return made, nil
}

func (s *side) stop() {
	for _, m := range s.machines {
		m.stop()
	}
	s.server.stop()
}

// A measurement is what a load has shown of a side.
type measurement struct {
	report
	redis usage // what Redis had to do for it
}

// requests returns the number of requests.
func (m *measurement) requests() int64 { return m.Count(allowed, refused, wrong) }

// rate returns requests per second.
func (m *measurement) rate() float64 { return float64(m.requests()) / m.Elapsed.Seconds() }

// measure sends a load to each machine of the side.
func (s *side) measure(l workload) (sum measurement, err error) {
	before, err := s.server.usage()
	if err != nil {
		return sum, err
	}
	reports, errs := make([]report, len(s.machines)), make([]error, len(s.machines))
	var all sync.WaitGroup
	for i, m := range s.machines {
		all.Go(func() { reports[i], errs[i] = m.ask(l) })
	}
	all.Wait()
	after, err := s.server.usage()
	for i := range reports {
		sum.report.merge(&reports[i])
	}
	sum.redis = after.minus(before)
	return sum, errors.Join(append(errs, err)...)
}

// merge adds another measurement. Elapsed is that of all.
func (m *measurement) merge(other *measurement) {
	elapsed := m.Elapsed + other.Elapsed
	m.report.merge(&other.report)
	m.Elapsed = elapsed
	m.redis = m.redis.plus(other.redis)
}
