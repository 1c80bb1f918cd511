package memory

import (
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Banned implements [storage.BanLister]. It locks the database for one shard at a time.
func (s *Store) Banned(ctx context.Context, now int64, most int) (list []storage.Banned, err error) {
	for i := 0; i < shards && len(list) < most && err == nil; i++ {
		err = s.with(ctx, "bans", func(db *Database) error {
			for key, r := range db.shards[i].clients {
				r.Past = slices.Clone(r.Past)
				if r.Clamp(now); r.Banned(now) {
					list = append(list, storage.Banned{Key: key, Record: r})
				}
			}
			return nil
		})
	}
	return list[:min(len(list), max(most, 0))], err
}

var _ storage.BanLister = (*Store)(nil)
