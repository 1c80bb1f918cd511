package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Stats implements [storage.Store]. Bytes is all memory that the server uses, for other data as well.
func (s *Store) Stats(ctx context.Context) (stats storage.Stats, err error) {
	err = s.beside(ctx, "stats", func(ctx context.Context) error {
		info, err := s.info(ctx, "memory")
		stats.Bytes, _ = strconv.ParseInt(info["used_memory"], 10, 64)
		return err
	})
	return stats, err
}

// beside makes a call that doesn't wait for others, and needs no number.
func (s *Store) beside(ctx context.Context, what string, f func(ctx context.Context) error) error {
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
func (s *Store) info(ctx context.Context, section string) (map[string]string, error) {
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

// inspect finds out what the server does when its memory is full, and gives notice if it may remove
// counts. A server that doesn't say is accepted.
func (s *Store) inspect(ctx context.Context) error {
	memory, err := s.info(ctx, "memory")
	if isAnswer(err) {
		return nil
	}
	if err != nil {
		return err
	}
	policy := memory["maxmemory_policy"]
	if policy != "" && policy != "noeviction" && s.options.Notice != nil {
		s.options.Notice(Notice{Policy: policy})
	}
	s.evicted, err = s.evictions(ctx)
	return err
}

// evictions returns how many keys the server has removed because its memory was full.
func (s *Store) evictions(ctx context.Context) (int64, error) {
	stats, err := s.info(ctx, "stats")
	if err != nil {
		if isAnswer(err) {
			err = nil
		}
		return 0, err
	}
	n, _ := strconv.ParseInt(stats["evicted_keys"], 10, 64)
	return n, nil
}

// checkEvictions returns an error if the server has removed keys since the store was opened, because
// counts may be among them.
func (s *Store) checkEvictions(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	n, err := s.evictions(ctx)
	if err == nil && n > s.evicted {
		s.fail(storage.ErrLostWrites, &s.former.losses)
		err = fmt.Errorf("%w: the server has evicted %d keys: set its maxmemory-policy to noeviction", storage.ErrLostWrites, n-s.evicted)
	}
	return err
}
