//go:build linux

// Package process runs the servers that benchmarks send requests to, each as a
// process of its own, and reads what they take of the machine from /proc.
package process

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/child"
)

// A Process is a server that was started.
type Process struct {
	command *exec.Cmd
	log     string
	ended   chan struct{} // closed when the process has ended
}

// stopTimeout is how long a process may take to stop before it is killed.
const stopTimeout = 10 * time.Second

// Start starts a command whose files are in a folder, where its output becomes the file log. It is
// told to stop when ctx ends.
func Start(ctx context.Context, folder, name string, args ...string) (*Process, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	log := filepath.Join(folder, "log")
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopTimeout
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has its own
	command.Stdout, command.Stderr = file, file
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &Process{command: command, log: log, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = command.Wait() // how it ended is in the log
	}()
	return p, nil
}

// Await waits until the process listens on an address.
func (p *Process) Await(address string) error {
	for deadline := time.Now().Add(time.Minute); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s doesn't listen: %w", filepath.Base(p.command.Path), err)
		}
		select {
		case <-p.ended:
			said, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s ended: %s", filepath.Base(p.command.Path), bytes.TrimSpace(said[max(0, len(said)-1000):]))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// Kill ends the process by SIGKILL.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// Stop tells the process to stop and waits until it has.
func (p *Process) Stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// Logged returns how often the process has written text.
func (p *Process) Logged(text string) (int, error) {
	log, err := os.ReadFile(p.log)
	return bytes.Count(log, []byte(text)), err
}

// caddyfile is a site of Caddy: global options, port, limiter.
const caddyfile = `{
	admin off
	persist_config off
	auto_https off
	%s
}

:%d {
	bind 127.0.0.1
	route {
		%s
		respond "hello"
	}
}
`

// StartCaddy starts a Caddy with any modules, whose only site has a limiter, or none if it is empty.
func StartCaddy(ctx context.Context, folder, program string, port int, global, limiter string) (*Process, error) {
	config := filepath.Join(folder, "Caddyfile")
	if err := os.WriteFile(config, fmt.Appendf(nil, caddyfile, global, port, limiter), 0o600); err != nil {
		return nil, err
	}
	return Start(ctx, folder, program, "run", "--config", config, "--adapter", "caddyfile")
}

// FreePort returns [child.FreePort] as a number.
func FreePort() (int, error) {
	port, err := child.FreePort()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}

// Address returns a port's address on the loopback interface.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
