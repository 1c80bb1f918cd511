package sqlite

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Stats implements [storage.Store].
func (s *Store) Stats(ctx context.Context) (storage.Stats, error) {
	if err := ctx.Err(); err != nil {
		return storage.Stats{}, wrap("stats", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return storage.Stats{}, wrap("stats", storage.ErrClosed)
	}
	free, err := s.writer.int(`PRAGMA freelist_count`)
	if err != nil {
		return storage.Stats{}, s.failedLocked(wrap("stats", err))
	}
	page, err := s.writer.int(`PRAGMA page_size`)
	if err != nil {
		return storage.Stats{}, s.failedLocked(wrap("stats", err))
	}
	var bytes int64
	for _, suffix := range []string{"", walSuffix, shmSuffix} {
		bytes += sizeOf(s.options.Path + suffix)
	}
	return storage.Stats{Bytes: bytes, FreeBytes: free * page}, nil
}
