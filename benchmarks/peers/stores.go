//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/process"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// on returns the Caddy with this module and a store on a server, which each side with a limiter has
// for itself.
func (b *bench) on(name string, store func(context.Context, site, *running) (string, error)) server {
	s := b.caddy()
	s.name, s.sides, s.store = name, []side{without, limited}, store
	return s
}

// startRedis starts a Redis that keeps nothing on disk.
func startRedis(ctx context.Context, at site, r *running) (text string, err error) {
	program, err := lookPath("redis-server")
	if err != nil {
		return "", err
	}
	port, err := process.FreePort()
	if err != nil {
		return "", err
	}
	p, err := process.Start(ctx, filepath.Join(at.folder, "redis.log"), nil, program,
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", at.folder, "--save", "", "--appendonly", "no")
	if err != nil {
		return "", err
	}
	r.stopStore = p.Stop
	if err := p.Await(process.Address(port)); err != nil {
		return "", err
	}
	return storeText(at, "redis redis://"+process.Address(port))
}

// startPostgres starts a Postgres with the settings that it has by default.
func startPostgres(_ context.Context, at site, r *running) (text string, err error) {
	s, err := testserver.Postgres("fsync=on", "shared_buffers=128MB")
	if err != nil {
		return "", err
	}
	r.stopStore = s.Close
	return storeText(at, "postgres "+s.DSN(s.Port))
}

// storeText returns the options for a store on a network, which needs a secret.
func storeText(at site, store string) (string, error) {
	secret := filepath.Join(at.folder, "secret")
	err := os.WriteFile(secret, []byte(strings.Repeat("5ec2e7", 11)[:64]), 0o600)
	return store + "\n\t\tsecret_file " + secret, err
}
