//go:build unix

package main

import (
	"context"
	"fmt"
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
		{"sliding 1000/24h", limiter.Params{Amount: 1000, Window: 24 * time.Hour}},
		{"fixed 100/1m", limiter.Params{Algorithm: limiter.Fixed, Amount: 100, Window: time.Minute}},
		{"token bucket 100/1m", limiter.Params{Algorithm: limiter.TokenBucket, Amount: 100, Window: time.Minute}},
	} {
		for rows := s.some / 100; rows <= s.some; rows *= 10 {
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
	if err := d.fill(ctx, p, inTurn(0, rows), max(rows/1000, 16), time.Now()); err != nil {
		return err
	}
	bytes, err := d.bytes()
	if err != nil {
		return err
	}
	fmt.Printf("size %s rows=%d bytes=%d bytes/row=%.1f (target 100)\n", name, rows, bytes, float64(bytes)/float64(rows))
	return d.remove()
}
