//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
)

const zone = `rate_limit {
			zone keys {
				per key {http.request.header.X-Key}
				limit 1/24h
			}
		}`

// caddy is a Caddy that was started.
type caddy struct {
	*process.Process
	address string
	called  time.Time // when it was started
}

// run starts a Caddy that has its files in a folder.
func (s *settings) run(ctx context.Context, folder string, sd side) (*caddy, error) {
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	program, global, limiter := s.caddys[0], "", ""
	if sd.tally {
		program = s.caddys[1]
	}
	if sd.zone {
		global, limiter = fmt.Sprintf("rate_limit {\n\t\tstore sqlite %s\n\t}", filepath.Join(folder, "tally.db")), zone
	}
	c := &caddy{address: process.Address(port), called: time.Now()}
	c.Process, err = process.StartCaddy(ctx, folder, program, port, global, limiter)
	return c, err
}

// startTimeout is how long a start may take.
const startTimeout = 30 * time.Second

// answer sends a request with a key until it is answered, and returns the status.
func (c *caddy) answer(key string) (status int, err error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+c.address, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("X-Key", key)
	for {
		response, err := http.DefaultTransport.RoundTrip(request)
		if err == nil {
			return response.StatusCode, response.Body.Close()
		}
		if time.Since(c.called) > startTimeout {
			return 0, err
		}
		time.Sleep(time.Millisecond) // it doesn't listen yet
	}
}

// The parts of resident memory.
const (
	own    = "own"
	binary = "binary"
	other  = "other"
	all    = "all"
)

// idle is how long a Caddy has had nothing to do when its memory is measured.
const idle = 4 * time.Second

// idleMemory returns the resident memory, in bytes by part, of a Caddy that has answered one request, or as many
// as there are keys.
func (s *settings) idleMemory(ctx context.Context, folder string, sd side) (map[string]int64, error) {
	c, err := s.run(ctx, folder, sd)
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	if _, err := c.answer("one"); err != nil {
		return nil, err
	}
	if sd.keys {
		if err := c.flood(ctx, s.keys); err != nil {
			return nil, err
		}
	}
	time.Sleep(idle)
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps", c.PID()))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return parseSmaps(bufio.NewScanner(file), s.scratch), nil
}

// parseSmaps sums up the text of /proc/PID/smaps, see proc_pid_smaps(5), of a program in a folder.
func parseSmaps(lines *bufio.Scanner, programs string) map[string]int64 {
	sum := make(map[string]int64)
	file, resident := "", int64(0)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if !strings.HasSuffix(fields[0], ":") { // a mapping begins: addresses, permissions, offset, device, inode, path
			file = strings.Join(fields[5:], " ")
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch bytes := kib << 10; fields[0] {
		case "Rss:":
			resident = bytes
			sum[all] += bytes
		case "Anonymous:":
			sum[own] += bytes
			if filepath.Dir(file) == programs {
				sum[binary] += resident - bytes
			} else {
				sum[other] += resident - bytes
			}
		}
	}
	return sum
}
