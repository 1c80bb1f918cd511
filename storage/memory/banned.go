package memory

import (
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Banned implements [storage.BanLister]. It locks the database for one shard at a time.
func (s *Store) Banned(ctx context.Context, now int64, most int) (banned map[storage.Key]reputation.Record, err error) {
	banned = make(map[storage.Key]reputation.Record)
	for i := 0; i < shards && err == nil; i++ {
		err = s.with(ctx, "bans", func(db *Database) error {
			for key, r := range db.shards[i].clients {
				if r.Banned(now) && len(banned) < most {
					r.Past = slices.Clone(r.Past)
					r.Clamp(now)
					banned[key] = r
				}
			}
			return nil
		})
	}
	return banned, err
}

var _ storage.BanLister = (*Store)(nil)
