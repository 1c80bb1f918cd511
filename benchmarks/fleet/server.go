//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// A server is a redis-server of its own, which keeps nothing on disk.
type server struct {
	address string
	folder  string
	process *process.Process
	client  rueidis.Client // asks how it does
}

// findServer returns the program of the server.
func findServer() (string, error) {
	for _, name := range testserver.RedisNames {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("none of %v is installed; in Debian it is the package redis-server", testserver.RedisNames)
}

// startServer starts a server.
func startServer(ctx context.Context, scratch string) (*server, error) {
	program, err := findServer()
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	s := &server{address: process.Address(port)}
	if s.folder, err = os.MkdirTemp(scratch, "redis-"); err != nil {
		return nil, err
	}
	s.process, err = process.Start(ctx, s.folder, program,
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.folder, "--save", "", "--appendonly", "no")
	if err != nil {
		return nil, err
	}
	if err = s.process.Await(s.address); err == nil {
		s.client, err = connect(s.address)
	}
	if err != nil {
		s.process.Stop()
		return nil, err
	}
	return s, nil
}

func (s *server) stop() {
	s.client.Close()
	s.process.Stop()
}

// usage is what a server has done.
type usage struct {
	commands int64         // that clients have sent; what a script does is one command
	cpu      time.Duration // all of it
}

// sent are the commands that limiters send for requests and between them. None of them is one that
// their scripts call, which the server counts as well.
var sent = []string{"evalsha", "eval", "incrby", "expire", "scan", "mget", "zadd"}

// usage returns what the server has done since its start.
func (s *server) usage() (u usage, err error) {
	text, err := s.client.Do(context.Background(), s.client.B().Info().Section("commandstats", "cpu").Build()).ToString()
	if err != nil {
		return u, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	for _, command := range sent {
		calls, _, _ := strings.Cut(strings.TrimPrefix(fields["cmdstat_"+command], "calls="), ",")
		if n, err := strconv.ParseInt(calls, 10, 64); err == nil {
			u.commands += n
		}
	}
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(fields[name], 64)
		if err != nil {
			return u, fmt.Errorf("INFO cpu: %s: %w", name, err)
		}
		u.cpu += time.Duration(seconds * float64(time.Second))
	}
	return u, nil
}
