package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/caddy-tally/caddy-tally/storage"
)

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
