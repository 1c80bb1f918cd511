//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

const (
	// usedUp is the key whose limit is used up before the start, so that a right answer says so.
	usedUp = "used-up"
	// late is how many keys come once each right before a Caddy is killed.
	late = 20_000
)

// start compares the time from the start of a process to its first right answer.
func (s *settings) start(ctx context.Context) error {
	folder := filepath.Join(s.scratch, "full")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if err := fill(ctx, folder, s.rows); err != nil {
		return err
	}
	stopped, err := s.runOnce(ctx, folder, (*caddy).Stop)
	if err != nil {
		return err
	}
	killed, err := s.runOnce(ctx, stopped, func(c *caddy) { c.Kill() })
	if err != nil {
		return err
	}
	starts := []struct {
		name, from string
		side       side
	}{
		{"plain", "", sides[0]},
		{"a zone, no database", "", sides[2]},
		{fmt.Sprintf("a zone, %d rows", s.rows), stopped, sides[2]},
		{fmt.Sprintf("a zone, %d rows, after kill -9", s.rows), killed, sides[2]},
	}
	times := make([][]float64, len(starts)) // in milliseconds
	for round := range s.repeats {
		for _, i := range lab.Turns(len(starts), round) {
			took, err := s.firstAnswer(ctx, starts[i].from, starts[i].side)
			if err != nil {
				return fmt.Errorf("%s: %w", starts[i].name, err)
			}
			times[i] = append(times[i], took.Seconds()*1000)
		}
	}
	for i, start := range starts {
		fmt.Printf("first answer, %s: %s ms, %.0f more than plain (target 300 in all)\n", start.name, lab.Spread(times[i]), lab.Median(times[i])-lab.Median(times[0]))
	}
	return nil
}

// fill makes a database with rows of a limit that the Caddy doesn't have.
func fill(ctx context.Context, folder string, rows int) error {
	place, err := lab.NewPlace(folder)
	if err != nil {
		return err
	}
	limit, err := limiter.New(limiter.Params{Amount: 60, Window: 30 * 24 * time.Hour})
	if err != nil {
		return err
	}
	store, err := place.OpenStore(ctx)
	if err != nil {
		return err
	}
	claims := make([]storage.Claim, rows)
	for i := range claims {
		claims[i] = storage.Claim{
			ID: lab.LimitID, Key: place.Name(lab.LimitID, strconv.Itoa(i)), Limit: limit,
			Claim: limiter.Claim{Min: 1, Want: 1},
		}
	}
	slices.SortFunc(claims, func(a, b storage.Claim) int { return strings.Compare(string(a.Key[:]), string(b.Key[:])) })
	for some := range slices.Chunk(claims, 10_000) {
		if err := store.Claim(ctx, storagetest.At(time.Now().UnixNano()), some, make([]limiter.Grant, len(some))); err != nil {
			return err
		}
	}
	return store.Close()
}

// copyOf returns a copy of a folder, or an empty folder.
func (s *settings) copyOf(folder string) (string, error) {
	to, err := os.MkdirTemp(s.scratch, "start-")
	if err != nil || folder == "" {
		return to, err
	}
	defer syscall.Sync()
	return to, os.CopyFS(to, os.DirFS(folder))
}

// runOnce runs a Caddy on a copy of a folder and uses up a limit. Then many new keys come, the Caddy ends,
// and its folder is returned.
func (s *settings) runOnce(ctx context.Context, folder string, end func(*caddy)) (string, error) {
	folder, err := s.copyOf(folder)
	if err != nil {
		return "", err
	}
	c, err := s.run(ctx, folder, sides[2])
	if err != nil {
		return "", err
	}
	if _, err = c.answer(usedUp); err == nil {
		time.Sleep(time.Second) // the journal is in use by then
		err = c.flood(ctx, late)
	}
	end(c)
	return folder, err
}

// flood sends a request with each of so many new keys.
func (c *caddy) flood(ctx context.Context, keys int) error {
	_, err := load.HTTP(ctx, c.address, 16, load.Load{Requests: int64(keys)}, func(b []byte, number int64) []byte {
		return fmt.Appendf(b, "GET / HTTP/1.1\r\nHost: %s\r\nX-Key: late-%d\r\n\r\n", c.address, number)
	})
	return err
}

// firstAnswer starts a Caddy on a copy of a folder and returns when it gave its first answer, which must
// be right.
func (s *settings) firstAnswer(ctx context.Context, from string, sd side) (time.Duration, error) {
	folder, err := s.copyOf(from)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	c, err := s.run(ctx, folder, sd)
	if err != nil {
		return 0, err
	}
	status, err := c.answer(usedUp)
	took := time.Since(c.called)
	c.Stop()
	want := http.StatusOK
	if from != "" {
		want = http.StatusTooManyRequests
	}
	if err == nil && status != want {
		err = fmt.Errorf("the first answer was %d, want %d", status, want)
	}
	return took, err
}
