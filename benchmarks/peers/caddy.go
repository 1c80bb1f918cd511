//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
)

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

// startCaddy starts a Caddy, with any modules, with a Caddyfile of the given text.
func (s site) startCaddy(ctx context.Context, text string) (*process.Process, error) {
	config := filepath.Join(s.folder, "Caddyfile")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	env := append(s.env(), "XDG_DATA_HOME="+s.folder, "XDG_CONFIG_HOME="+s.folder)
	return process.Start(ctx, filepath.Join(s.folder, "log"), env, s.program, "run", "--config", config, "--adapter", "caddyfile")
}

// tallyLimiter is the limiter of this module: header fields, amount, window.
const tallyLimiter = `rate_limit {
			headers %s
			zone keys {
				per key {http.request.header.X-Key}
				limit %d/%v
			}
		}`

// caddy returns the Caddy with this module.
func (b *bench) caddy() server {
	return server{
		name: "caddy", version: "version", sides: b.tallySides(), gogc: true,
		find: b.buildTally,
		start: func(ctx context.Context, s site) (*process.Process, error) {
			return s.startCaddy(ctx, s.tallyConfig())
		},
	}
}

// pair returns two Caddys with this module that share a database.
func (b *bench) pair() server {
	s := b.caddy()
	s.name, s.sides, s.processes = "pair", []side{without, limited}, 2
	return s
}

// tallySides returns the sides of this module's Caddy.
func (b *bench) tallySides() []side {
	if b.history {
		return []side{without, limited, historyOff}
	}
	return []side{without, headersOn, headersOff}
}

func (s site) tallyConfig() string {
	fields, known := map[side]string{limited: "draft", headersOn: "draft", headersOff: "off", historyOff: "draft"}[s.side]
	if !known {
		return fmt.Sprintf(caddyfile, "", s.port, "")
	}
	global := fmt.Sprintf("rate_limit {\n\t\tstore %s\n", cmp.Or(s.store, "sqlite "+s.database))
	if s.side == historyOff {
		global += "\t\thistory off\n"
	}
	if s.swept {
		global += "\t\tcleanup_interval 5s\n"
	}
	return fmt.Sprintf(caddyfile, global+"\t}", s.port, fmt.Sprintf(tallyLimiter, fields, s.limit.amount, s.limit.window))
}

// outage is what Caddy logs when its limiter can't use the store. A machine on which it
// does is too busy to measure anything.
const outage = "the store can't be used"

func (b *bench) buildTally(ctx context.Context) (string, error) {
	if b.tally != "" {
		return b.tally, nil
	}
	root, err := lab.Go(ctx, "", "list", "-m", "-f", "{{.Dir}}", "github.com/caddy-tally/caddy-tally")
	if err != nil {
		return "", err
	}
	program := filepath.Join(b.scratch, "caddy")
	if _, err := lab.Go(ctx, root, "build", "-o", program, "./cmd/caddy"); err != nil {
		return "", err
	}
	b.tally = program
	return program, nil
}

// incumbentLimiter is the limiter of mholt/caddy-ratelimit: amount, window.
const incumbentLimiter = `rate_limit {
			zone keys {
				key {http.request.header.X-Key}
				events %d
				window %v
			}
		}`

// incumbentCaddy returns the Caddy with mholt/caddy-ratelimit.
func (b *bench) incumbentCaddy() server {
	return server{
		name: "incumbent", version: "version", sides: []side{without, limited}, gogc: true,
		find: func(context.Context) (string, error) {
			if b.incumbent == "" {
				return "", errors.New("-incumbent FILE names a Caddy that has it")
			}
			return b.incumbent, nil
		},
		start: func(ctx context.Context, s site) (*process.Process, error) {
			limiter := ""
			if s.side != without {
				limiter = fmt.Sprintf(incumbentLimiter, s.limit.amount, s.limit.window)
			}
			return s.startCaddy(ctx, fmt.Sprintf(caddyfile, "", s.port, limiter))
		},
	}
}
