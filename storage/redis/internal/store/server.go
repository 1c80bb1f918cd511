package store

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/storage"
)

// server is the connection to a server. Its methods may be called from several goroutines at once.
type server struct {
	options Options
	names   names
	client  rueidis.Client
	conns   *conns
	closed  atomic.Bool // no further call is made
}

// reach connects to a server.
func reach(ctx context.Context, o Options) (*server, error) {
	s := &server{options: o, names: names(o.Prefix), conns: newConns(o.dial)}
	var err error
	s.client, err = connect(ctx, o, s.conns)
	return s, err
}

// send sends a call until it is answered. If it may have been executed, it is sent again with the same
// number, so that the server recognizes it.
func (s *server) send(ctx context.Context, c call, keys, args []string) (r reply, err error) {
	sent := false
	for pause := time.Duration(0); ; pause = min(2*pause+time.Millisecond, 20*time.Millisecond) {
		var list []rueidis.RedisMessage
		list, err = c.script.Exec(ctx, s.client, keys, args).ToArray()
		switch {
		case err == nil:
			if r, err = parse(list); err != nil {
				return r, c.leftOpen(err)
			}
			r.resent = sent
			return r, nil
		case isAnswer(err) && !wasRefused(err): // the script may have stopped halfway
			return r, c.leftOpen(err)
		case !isAnswer(err) && !wasNotSent(err):
			sent = true
		case !sent:
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, c.leftOpen(err)
		case <-time.After(pause):
		}
	}
}

// beside makes a call that doesn't wait for others, and needs no number: no script that begins with
// enter.lua.
func (s *server) beside(ctx context.Context, what string, f func(ctx context.Context) error) error {
	err := ctx.Err()
	if s.closed.Load() {
		err = storage.ErrClosed
	}
	if err == nil {
		within, cancel := context.WithTimeout(ctx, s.options.Timeout)
		defer cancel()
		err = explain(f(within))
	}
	if err != nil && s.closed.Load() {
		err = storage.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("redis: %s: %w", what, err)
	}
	return nil
}

// info returns a section of the server's INFO.
func (s *server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.client.Do(ctx, s.client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// hangUp ends all connections without waiting for the server, which may be silent.
func (s *server) hangUp() {
	s.conns.close()
	s.client.Close()
}
