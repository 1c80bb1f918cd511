//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

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
		name: "caddy", version: "version", sides: []side{without, headersOn, headersOff}, gogc: true,
		find: b.buildTally,
		start: func(ctx context.Context, s site) (*process.Process, error) {
			return process.StartCaddy(ctx, s.program, s.folder, s.tallyConfig(), s.env()...)
		},
	}
}

func (s site) tallyConfig() string {
	fields, known := map[side]string{limited: "draft", headersOn: "draft", headersOff: "off"}[s.side]
	if !known {
		return fmt.Sprintf(caddyfile, "", s.port, "")
	}
	global := fmt.Sprintf("rate_limit {\n\t\tstore sqlite %s\n", s.database())
	if s.watched {
		global += "\t\tcleanup_interval 5s\n\t}\n\tlog {\n\t\tlevel DEBUG\n\t\tinclude rate_limit\n"
	}
	return fmt.Sprintf(caddyfile, global+"\t}", s.port, fmt.Sprintf(tallyLimiter, fields, s.limit.amount, s.limit.window))
}

// database returns the file of a Caddy's counts.
func (s site) database() string {
	if s.shared != "" {
		return s.shared
	}
	return filepath.Join(s.folder, databaseFile)
}

// outage is what Caddy logs when its limiter can't use the store. A machine on which it
// does is too busy to measure anything.
const outage = "the store can't be used"

const databaseFile = "tally.db"

func (b *bench) buildTally(ctx context.Context) (string, error) {
	if b.tally != "" {
		return b.tally, nil
	}
	b.tally = filepath.Join(b.scratch, "caddy")
	return b.tally, process.BuildCaddy(ctx, b.tally)
}

// incumbentVersion is the commit that this module is compatible with.
const incumbentVersion = "5625512"

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
		find: b.buildIncumbent,
		start: func(ctx context.Context, s site) (*process.Process, error) {
			limiter := ""
			if s.side != without {
				limiter = fmt.Sprintf(incumbentLimiter, s.limit.amount, s.limit.window)
			}
			return process.StartCaddy(ctx, s.program, s.folder, fmt.Sprintf(caddyfile, "", s.port, limiter), s.env()...)
		},
	}
}

// buildIncumbent builds a copy of the module in the folder incumbent, with the Caddy
// that this module is built with.
func (b *bench) buildIncumbent(ctx context.Context) (string, error) {
	if b.incumbent != "" {
		return b.incumbent, nil
	}
	source, err := moduleFolder(ctx, "benchmarks/peers/incumbent")
	if err != nil {
		return "", err
	}
	caddyVersion, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Version}}", "github.com/caddyserver/caddy/v2")
	if err != nil {
		return "", err
	}
	folder := filepath.Join(b.scratch, "incumbent")
	if err := os.CopyFS(folder, os.DirFS(source)); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"get", "github.com/caddyserver/caddy/v2@" + caddyVersion, "github.com/mholt/caddy-ratelimit@" + incumbentVersion},
		{"mod", "tidy"},
		{"build", "-o", "server"},
	} {
		if _, err := goCommand(ctx, folder, args...); err != nil {
			return "", err
		}
	}
	b.incumbent = filepath.Join(folder, "server")
	return b.incumbent, nil
}

// moduleFolder returns a folder of this module.
func moduleFolder(ctx context.Context, path string) (string, error) {
	root, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", "github.com/caddy-tally/caddy-tally")
	return filepath.Join(root, path), err
}

// goCommand runs the go command in a folder and returns what it says.
func goCommand(ctx context.Context, folder string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	out, err := command.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		err = fmt.Errorf("go %s: %s", args[0], strings.Join(lines[max(0, len(lines)-2):], "; "))
	}
	return strings.TrimSpace(string(out)), err
}
