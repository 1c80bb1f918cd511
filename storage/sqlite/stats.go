package sqlite

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Stats implements [storage.Store]. It asks the file system for the sizes of the files. The free part is
// that of the last sweep.
func (s *Store) Stats(ctx context.Context) (storage.Stats, error) {
	if err := ctx.Err(); err != nil {
		return storage.Stats{}, wrap("stats", err)
	}
	select {
	case <-s.stop:
		return storage.Stats{}, wrap("stats", storage.ErrClosed)
	default:
	}
	journal := sizeOf(s.options.Path + chargesSuffix)
	bytes := journal
	for _, suffix := range []string{"", walSuffix, shmSuffix} {
		bytes += sizeOf(s.options.Path + suffix)
	}
	return storage.Stats{Bytes: bytes, JournalBytes: journal}, nil
}
