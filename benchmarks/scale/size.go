//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// size tells how many bytes of the file a live row takes, everything
// included: trees, free space in pages and the file's own. Few keys arrive in one
// transaction, because many that are sorted fill pages better than few.
func (s settings) size(ctx context.Context) error {
	for _, k := range []struct {
		name   string
		params limiter.Params
	}{
		{"sliding 100/1m", limiter.Params{Amount: 100, Window: time.Minute}},
		{"fixed 100/1m", limiter.Params{Algorithm: limiter.Fixed, Amount: 100, Window: time.Minute}},
		{"token bucket 100/1m", limiter.Params{Algorithm: limiter.TokenBucket, Amount: 100, Window: time.Minute}},
	} {
		for _, rows := range []int{smallest, min(100*smallest, s.rows)} {
			if err := sizeOf(ctx, s, k.name, k.params, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

func sizeOf(ctx context.Context, s settings, name string, p limiter.Params, rows int) error {
	d, err := newDatabase(s)
	if err != nil {
		return err
	}
	inTurn := make([]int, rows) // which is no order that the database knows of
	for i := range inTurn {
		inTurn[i] = i
	}
	if err := d.fill(ctx, p, inTurn, max(rows/1000, 16)); err != nil {
		return err
	}
	file, err := os.Stat(d.Database())
	if err != nil {
		return err
	}
	fmt.Printf("size %s rows=%d bytes=%d bytes/row=%.1f (target 100)\n", name, rows, file.Size(), float64(file.Size())/float64(rows))
	return d.remove()
}
