//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
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
	defer c.Stop()
	limited, plain := process.Address(s.port), process.Address(s.port+1)

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

// caddy is a Caddy that runs as a process of its own.
type caddy struct {
	*process.Process
	folder string
}

func startCaddy(ctx context.Context, s settings) (*caddy, error) {
	binary := filepath.Join(s.scratch, "server")
	if err := process.BuildCaddy(ctx, binary); err != nil {
		return nil, err
	}
	text := fmt.Sprintf(config, filepath.Join(s.scratch, "tally.db"), s.port, s.port+1)
	p, err := process.StartCaddy(ctx, binary, s.scratch, text)
	if err != nil {
		return nil, err
	}
	if err := p.Await(process.Address(s.port)); err != nil {
		p.Stop()
		return nil, err
	}
	return &caddy{p, s.scratch}, nil
}

// outages returns how often the log says that the store couldn't be used. With
// any, the machine was too busy for what is measured to say much.
func (c *caddy) outages() (int, error) { return c.Logged("the store can't be used") }

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
	memory, err := c.Memory()
	if err != nil {
		return err
	}
	var size int64
	if info, err := os.Stat(filepath.Join(c.folder, "tally.db")); err == nil {
		size = info.Size()
	}
	outages, err := c.outages()
	fmt.Printf("caddy %s: answers=%v seconds=%.0f resident=%dMiB peak=%dMiB database=%dMiB outages=%d\n",
		what, answers, took.Seconds(), memory.Resident>>10, memory.Peak>>10, size>>20, outages)
	return err
}
