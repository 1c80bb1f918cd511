package store

import (
	"context"
	"strconv"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Stats implements [storage.Store]. Bytes is all memory that the server uses, for other data as well.
func (s *Store) Stats(ctx context.Context) (stats storage.Stats, err error) {
	err = s.server.beside(ctx, "stats", func(ctx context.Context) error {
		info, err := s.server.info(ctx, "memory")
		stats.Bytes, _ = strconv.ParseInt(info["used_memory"], 10, 64)
		return err
	})
	return stats, err
}
