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

// machine is the record of this store in a place, and makes its calls one after the other. A call that
// writes has a number, which follows the last one in the record.
type machine struct {
	server *server
	former *former
	losses int64  // of former, when the store was opened
	leaves int64  // likewise
	key    string // of the record on the server
	place  string // the id of the place

	turn   chan struct{} // holds a token while a call is under way
	seq    int64         // guarded by turn, like all below: the number of the last call that wrote
	broken error         // why the store can't be used any more
	clock  clock
}

func newMachine(s *server, before *former) *machine {
	return &machine{server: s, former: before, key: s.names.machine(randomID()), clock: before.witness(),
		turn: make(chan struct{}, 1)}
}

// enter creates the place if there is none, and this machine's record in it. It removes the records of
// stores that were closed before, and finds out from them whether writes of these were lost.
func (m *machine) enter(ctx context.Context) error {
	m.losses, m.leaves = m.former.losses.Load(), m.former.leaves.Load()
	late := m.former.list()
	keys := []string{m.server.names.meta(), m.key}
	args := []string{format, oldestReader, randomID(), strconv.FormatInt(stays.Milliseconds(), 10)}
	for _, r := range late {
		keys, args = append(keys, r.key), append(args, strconv.FormatInt(r.seq, 10))
	}
	reply, err := openScript.Exec(ctx, m.server.client, keys, args).ToArray()
	if err != nil {
		return explain(err)
	}
	status, value, err := pairOf(reply)
	if err != nil {
		return err
	}
	switch status {
	case "foreign":
		return fmt.Errorf("%w: %s holds something else (%s): write another prefix", storage.ErrForeign,
			m.server.names.meta(), value)
	case "later":
		return fmt.Errorf(
			"%w: %s has the format %s, which this caddy-tally doesn't know: update it, or write another prefix",
			storage.ErrForeign, m.server.names.meta(), value)
	case "timeless":
		return fmt.Errorf("scripts can't ask this server for its time (TIME: %s): expected Redis 5 or later, Valkey or KeyDB, and a user with the right +time", value)
	case "lost":
		m.losses = m.former.losses.Add(1)
	}
	m.former.remove(late)
	m.place = value
	return nil
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

// leave makes the last call impossible, and remembers the record for the next store.
func (m *machine) leave() error {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if m.server.closed.Swap(true) {
		return fmt.Errorf("redis: close: %w", storage.ErrClosed)
	}
	m.former.add(record{m.key, m.seq})
	m.server.hangUp()
	return nil
}

// take waits for the turn of a call.
func (m *machine) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := m.broken
	if m.server.closed.Load() {
		err = storage.ErrClosed
	}
	if err != nil {
		<-m.turn
	}
	return err
}

// upkeep makes a call that has no term.
func (m *machine) upkeep(ctx context.Context, c call) (reply, error) {
	return m.do(ctx, c, func(ctx context.Context, c *call) (reply, error) { return m.ask(ctx, c, header{}, 0) })
}

// do makes a call with ask.
func (m *machine) do(ctx context.Context, c call, ask func(context.Context, *call) (reply, error)) (r reply,
	err error) {
	if err := m.take(ctx); err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, err)
	}
	defer func() { <-m.turn }()
	if r, err = m.doInTurn(ctx, &c, ask); err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, explain(err))
	}
	return r, nil
}

func (m *machine) doInTurn(ctx context.Context, c *call, ask func(context.Context, *call) (reply, error)) (r reply,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, m.server.options.Timeout)
	defer cancel()
	r, err = ask(ctx, c)
	if c.open && !errors.Is(err, storage.ErrUnknownOutcome) {
		err = c.leftOpen(errLate)
	}
	if errors.Is(err, storage.ErrUnknownOutcome) {
		m.fail(errBroken, &m.former.leaves)
	}
	return r, err
}

// read makes a call of upkeep that changes no counts. No other call waits for it.
func (m *machine) read(ctx context.Context, c call) (r reply, err error) {
	if err = m.take(ctx); err == nil {
		keys, args := m.packed(c, header{}, 0)
		<-m.turn
		within, cancel := context.WithTimeout(ctx, m.server.options.Timeout)
		defer cancel()
		r, err = m.server.send(within, c, keys, args)
	}
	if err == nil && r.status == "lost" {
		if err = m.take(ctx); err == nil {
			m.fail(storage.ErrLostWrites, &m.former.losses)
			<-m.turn
			err = storage.ErrLostWrites
		}
	}
	if err != nil {
		return r, fmt.Errorf("redis: %s: %w", c.what, explain(err))
	}
	return r, nil
}

// packed returns the keys and arguments of a call as of a time.
func (m *machine) packed(c call, h header, now int64) (keys, args []string) {
	q := c.request(now)
	h.from = max(q.from, h.from, now-jump)
	keys = append([]string{m.server.names.meta(), m.key}, q.keys...)
	args = append([]string{m.header(h, c.writes)}, q.args...)
	return keys, args
}

// ask sends a call as of a time, and counts it if it was executed.
func (m *machine) ask(ctx context.Context, c *call, h header, now int64) (r reply, err error) {
	keys, args := m.packed(*c, h, now)
	if r, err = m.server.send(ctx, *c, keys, args); err != nil {
		return r, err
	}
	switch r.status {
	case "lost":
		c.open = false
		m.fail(storage.ErrLostWrites, &m.former.losses)
		return r, storage.ErrLostWrites
	case "ok", "again":
		c.open = false
		m.seq += bit(c.writes)
	default:
		c.open = c.open || c.writes && r.resent && (h.asof != 0 || !h.timed) // a call without a time only asks for it
	}
	return r, nil
}

// fail makes all further calls return an error, and counts its cause.
func (m *machine) fail(err error, count *atomic.Int64) {
	m.broken = err
	count.Add(1)
}
