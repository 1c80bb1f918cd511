package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/storage"
)

// enter creates the place if there is none, and this machine's record in it. It removes the records of
// stores that were closed before, and finds out from them whether writes of these were lost.
func (s *Store) enter(ctx context.Context) error {
	s.losses, s.leaves = s.former.losses.Load(), s.former.leaves.Load()
	late := s.former.list()
	keys := []string{s.names.meta(), s.machine}
	args := []string{format, oldestReader, randomID(), strconv.FormatInt(stays.Milliseconds(), 10)}
	for _, r := range late {
		keys, args = append(keys, r.key), append(args, strconv.FormatInt(r.seq, 10))
	}
	reply, err := openScript.Exec(ctx, s.client, keys, args).ToArray()
	if err != nil {
		return explain(err)
	}
	status, value, err := pairOf(reply)
	if err != nil {
		return err
	}
	switch status {
	case "foreign":
		return fmt.Errorf("%w: %s holds something else (%s): write another prefix", storage.ErrForeign, s.names.meta(), value)
	case "later":
		return fmt.Errorf("%w: %s has the format %s, which this caddy-tally doesn't know: update it, or write another prefix", storage.ErrForeign, s.names.meta(), value)
	case "timeless":
		return fmt.Errorf("scripts can't ask this server for its time (TIME: %s): expected Redis 5 or later, Valkey or KeyDB, and a user with the right +time", value)
	case "lost":
		s.losses = s.former.losses.Add(1)
	}
	s.former.remove(late)
	s.place = value
	return s.inspect(ctx)
}

func pairOf(reply []rueidis.RedisMessage) (first, second string, err error) {
	if len(reply) < 2 {
		return "", "", errors.New("the server's answer is too short")
	}
	first, err = reply[0].ToString()
	if err == nil {
		second, err = reply[1].ToString()
	}
	return first, second, err
}

// take waits for the turn of a call.
func (s *Store) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := s.broken
	if s.closed.Load() {
		err = storage.ErrClosed
	}
	if err != nil {
		<-s.turn
	}
	return err
}

// upkeep makes a call that has no term.
func (s *Store) upkeep(ctx context.Context, c call) (reply, error) {
	return s.do(ctx, c, func(ctx context.Context, c *call) (reply, error) { return s.ask(ctx, c, header{}, 0) })
}

// do makes a call with ask.
func (s *Store) do(ctx context.Context, c call, ask func(context.Context, *call) (reply, error)) (r reply, err error) {
	if err := s.take(ctx); err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, err)
	}
	defer func() { <-s.turn }()
	if r, err = s.doInTurn(ctx, &c, ask); err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, explain(err))
	}
	return r, nil
}

func (s *Store) doInTurn(ctx context.Context, c *call, ask func(context.Context, *call) (reply, error)) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	r, err = ask(ctx, c)
	if c.open && !errors.Is(err, storage.ErrUnknownOutcome) {
		err = c.leftOpen(errLate)
	}
	if errors.Is(err, storage.ErrUnknownOutcome) {
		s.fail(errBroken, &s.former.leaves)
	}
	return r, err
}

// read makes a call of upkeep that changes no counts. No other call waits for it.
func (s *Store) read(ctx context.Context, c call) (r reply, err error) {
	if err = s.take(ctx); err == nil {
		keys, args, failed := s.packed(c, header{}, 0)
		<-s.turn
		if err = failed; err == nil {
			within, cancel := context.WithTimeout(ctx, s.options.Timeout)
			defer cancel()
			r, err = s.send(within, c, keys, args)
		}
	}
	if err == nil && r.status == "lost" {
		if err = s.take(ctx); err == nil {
			s.fail(storage.ErrLostWrites, &s.former.losses)
			<-s.turn
			err = storage.ErrLostWrites
		}
	}
	if err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, explain(err))
	}
	return r, nil
}

// packed returns the keys and arguments of a call as of a time.
func (s *Store) packed(c call, h header, now int64) (keys, args []string, err error) {
	q, err := c.request(now)
	if err != nil {
		return nil, nil, err
	}
	h.from = max(q.from, h.from, now-jump)
	keys = append([]string{s.names.meta(), s.machine}, q.keys...)
	args = append([]string{s.header(h, c.writes)}, q.args...)
	return keys, args, nil
}

// ask sends a call as of a time, and counts it if it was executed.
func (s *Store) ask(ctx context.Context, c *call, h header, now int64) (r reply, err error) {
	keys, args, err := s.packed(*c, h, now)
	if err != nil {
		return r, err
	}
	if r, err = s.send(ctx, *c, keys, args); err != nil {
		return r, err
	}
	switch r.status {
	case "lost":
		c.open = false
		s.fail(storage.ErrLostWrites, &s.former.losses)
		return r, storage.ErrLostWrites
	case "ok", "again":
		c.open = false
		s.seq += bit(c.writes)
	default:
		c.open = c.open || c.writes && r.resent && (h.asof != 0 || !h.timed) // a call without a time only asks for it
	}
	return r, nil
}

// fail makes all further calls return an error, and counts its cause.
func (s *Store) fail(err error, count *atomic.Int64) {
	s.broken = err
	count.Add(1)
}
