//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

const (
	// month is a window in which everything that is written while this program
	// runs lies, so that rows are live until the program wants them dead.
	month = 30 * 24 * time.Hour
	// amount is so small that a claim gets nothing for later: whenever a key is
	// not in memory, it needs another.
	amount = 60
)

// database is a database with rows for the keys from 0 on.
type database struct {
	*lab.Place
	rows int
}

// newDatabase returns an empty database in a folder of its own.
func newDatabase(s settings) (*database, error) {
	dir, err := os.MkdirTemp(s.scratch, "db-")
	if err != nil {
		return nil, err
	}
	place, err := lab.NewPlace(dir)
	return &database{Place: place}, err
}

func (d *database) remove() error { return os.RemoveAll(filepath.Dir(d.Database())) }

// copy returns a copy of a database, as it is on the disk, on the disk.
func (d *database) copy(s settings) (*database, error) {
	dir, err := os.MkdirTemp(s.scratch, "copy-")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(d.Database()))); err != nil {
		return nil, err
	}
	syscall.Sync() // or the first checkpoint of the copy would write all of it
	place, err := lab.NewPlace(dir)
	return &database{Place: place, rows: d.rows}, err
}

func key(i int) string { return "client-" + strconv.Itoa(i) }

// fill adds rows of a limit, one for each of the keys, some of them
// in each transaction.
func (d *database) fill(ctx context.Context, p limiter.Params, arrivals []int, batch int) error {
	limit, err := limiter.New(p)
	if err != nil {
		return err
	}
	store, err := d.OpenStore(ctx)
	if err != nil {
		return err
	}
	now := time.Now().UnixNano()
	claims, grants := make([]storage.Claim, 0, batch), make([]limiter.Grant, batch)
	for some := range slices.Chunk(arrivals, batch) {
		claims = claims[:0]
		for _, i := range some {
			claims = append(claims, storage.Claim{
				ID: lab.LimitID, Key: d.name(i), Limit: limit,
				Claim: limiter.Claim{Min: 1, Want: 1},
			})
		}
		if err := store.Claim(ctx, storagetest.At(now), claims, grants[:len(claims)]); err != nil {
			return err
		}
	}
	d.rows += len(arrivals)
	return store.Close()
}

func (d *database) name(i int) storage.Key { return d.Name(lab.LimitID, key(i)) }

const (
	// passes is how often inPasses goes through the database. Pages are split in
	// all but the first, so that they are filled as unevenly as pages are.
	passes = 8
	// passBatch is how many of its keys are written in one transaction.
	passBatch = 10_000
)

// inPasses lets n keys arrive in the order of the database, every eighth of them
// in each of eight passes. That is many times faster than a page for each.
func (d *database) inPasses(n int) []int {
	names := make([]storage.Key, n)
	sorted := make([]int, n)
	for i := range sorted {
		names[i], sorted[i] = d.name(i), i
	}
	slices.SortFunc(sorted, func(a, b int) int { return bytes.Compare(names[a][:], names[b][:]) })
	arrivals := make([]int, 0, n)
	for pass := range passes {
		for i := pass; i < n; i += passes {
			arrivals = append(arrivals, sorted[i])
		}
	}
	return arrivals
}

// filled returns a database with live rows of the limit that claims are
// about.
func filled(ctx context.Context, s settings, rows int) (*database, error) {
	d, err := newDatabase(s)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	err = d.fill(ctx, live, d.inPasses(rows), passBatch)
	fmt.Printf("filled rows=%d seconds=%.0f\n", rows, time.Since(start).Seconds())
	return d, err
}

// live is the limit that claims are about.
var live = limiter.Params{Amount: amount, Window: month}
