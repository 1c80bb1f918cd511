package sqlstore

import (
	"context"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// bannedPage is how many records one statement reads.
const bannedPage = 1000

// Banned implements [storage.BanLister]. A record expires Probation after its ban, which leaves out
// most of the others on the server.
func (s *Store) Banned(ctx context.Context, now int64, most int) (list []storage.Banned, err error) {
	for after := []byte(nil); len(list) < most; {
		var page Rows
		err := s.chore(ctx, "bans", func(ctx context.Context, c Conn) error {
			results, err := s.place.run(ctx, c, s.place.script().add("SELECT name, state FROM ", table("clients"), " WHERE name > ", after,
				" AND expires > ", now+int64(reputation.Probation), " ORDER BY name LIMIT ", bannedPage))
			if err == nil {
				err = hasResults(results, 1)
			}
			if err == nil {
				page = results[0]
			}
			return err
		})
		if err != nil || len(page) == 0 {
			return list, err
		}
		for _, row := range page {
			r := cells.ParseRecord(row[1])
			if r.Clamp(now); r.Banned(now) && len(list) < most {
				list = append(list, storage.Banned{Key: storage.Key(row[0]), Record: r})
			}
		}
		after = page[len(page)-1][0]
	}
	return list, nil
}

var _ storage.BanLister = (*Store)(nil)
