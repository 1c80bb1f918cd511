//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// config is a site with a limit and one without, in one Caddy.
const config = `{
	admin off
	persist_config off
	auto_https off
	rate_limit {
		store sqlite %s
	}
}

:%d {
	rate_limit {
		zone many {
			per key {http.request.header.X-Key}
			limit 1000/1m
		}
	}
	respond "hello"
}

:%d {
	respond "hello"
}
`

// caddy tells how much memory a Caddy takes: without the limiter in use,
// with keys in rotation, and with random keys.
func (s settings) caddy(ctx context.Context) error {
	c, err := startCaddy(ctx, s)
	if err != nil {
		return err
	}
	defer c.stop()
	limited, plain := address4(s.port), address4(s.port+1)

	if err := c.load(ctx, "plain", plain, s, func(i int64) string { return strconv.FormatInt(i, 10) }, int64(s.rotating), 0); err != nil {
		return err
	}
	rotating := func(i int64) string { return "client-" + strconv.FormatInt(i%int64(s.rotating), 10) }
	if err := c.load(ctx, fmt.Sprintf("keys in rotation=%d (target 150 MiB)", s.rotating), limited, s, rotating, 0, s.period); err != nil {
		return err
	}
	random := func(int64) string { return strconv.FormatUint(rand.Uint64(), 36) }
	return c.load(ctx, fmt.Sprintf("random keys passed=%d", s.random), limited, s, random, int64(s.random), 0)
}

func address4(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// caddy is a Caddy that runs as a process of its own.
type caddy struct {
	command *exec.Cmd
	folder  string
}

func startCaddy(ctx context.Context, s settings) (*caddy, error) {
	binary := filepath.Join(s.scratch, "server")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/caddy-tally/caddy-tally/cmd/caddy").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w: %s", err, out)
	}
	file := filepath.Join(s.scratch, "Caddyfile")
	text := fmt.Sprintf(config, filepath.Join(s.scratch, "tally.db"), s.port, s.port+1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, binary, "run", "--config", file)
	command.Env = append(os.Environ(), "XDG_DATA_HOME="+s.scratch, "XDG_CONFIG_HOME="+s.scratch)
	c := &caddy{command: command, folder: s.scratch}
	log, err := os.Create(c.log())
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	command.Stderr = log
	if err := command.Start(); err != nil {
		return nil, err
	}
	return c, c.await(address4(s.port))
}

func (c *caddy) log() string { return filepath.Join(c.folder, "log") }

// outages returns how often the log says that the store couldn't be used. With
// any, the machine was too busy for what is measured to say much.
func (c *caddy) outages() (int, error) {
	log, err := os.ReadFile(c.log())
	return bytes.Count(log, []byte("the store can't be used")), err
}

// await waits until Caddy listens.
func (c *caddy) await(address string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			c.stop()
			return fmt.Errorf("caddy doesn't listen: %w", err)
		}
	}
}

func (c *caddy) stop() {
	_ = c.command.Process.Signal(os.Interrupt)
	_ = c.command.Wait()
}

// load sends requests and reports what memory they left Caddy with.
func (c *caddy) load(ctx context.Context, what, address string, s settings, key func(int64) string, requests int64, period time.Duration) error {
	var sent atomic.Int64
	start := time.Now()
	answers, err := send(address, func() (string, bool) {
		i := sent.Add(1) - 1
		if ctx.Err() != nil || requests > 0 && i >= requests || period > 0 && time.Since(start) > period {
			return "", false
		}
		return key(i), true
	})
	if err != nil {
		return err
	}
	took := time.Since(start)
	resident, peak, err := c.memory()
	if err != nil {
		return err
	}
	var size int64
	if info, err := os.Stat(filepath.Join(c.folder, "tally.db")); err == nil {
		size = info.Size()
	}
	outages, err := c.outages()
	fmt.Printf("caddy %s: answers=%v seconds=%.0f resident=%dMiB peak=%dMiB database=%dMiB outages=%d\n",
		what, answers, took.Seconds(), resident>>10, peak>>10, size>>20, outages)
	return err
}

// memory returns the resident memory of the process in KiB, and the most it was.
func (c *caddy) memory() (now, peak int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.command.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		switch name {
		case "VmRSS":
			now, err = strconv.Atoi(kib)
		case "VmHWM":
			peak, err = strconv.Atoi(kib)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return now, peak, nil
}
