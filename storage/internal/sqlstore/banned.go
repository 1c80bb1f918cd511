package sqlstore

import (
	"context"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// bannedPage is how many records one statement reads.
const bannedPage = 1000

// Banned implements [storage.BanLister]. A record is kept for Probation after its ban, so the server
// leaves out most of those without one.
func (s *Store) Banned(ctx context.Context, now int64, most int) (banned map[storage.Key]reputation.Record, err error) {
	banned = make(map[storage.Key]reputation.Record)
	page := make(Rows, bannedPage)
	for after := []byte(nil); err == nil && len(page) == bannedPage && len(banned) < most; {
		page, err = s.clientsAfter(ctx, after, now+int64(reputation.Probation))
		for _, row := range page {
			after = row[0]
			cells.AddBanned(banned, storage.Key(after), row[1], now, most)
		}
	}
	return banned, err
}

// clientsAfter returns a page of the clients after a name whose records expire later than a time.
func (s *Store) clientsAfter(ctx context.Context, name []byte, expires int64) (page Rows, err error) {
	err = s.chore(ctx, "bans", func(ctx context.Context, c Conn) error {
		results, err := s.place.run(ctx, c, s.place.script().add("SELECT name, state FROM ", table("clients"), " WHERE name > ", name,
			" AND expires > ", expires, " ORDER BY name LIMIT ", bannedPage))
		if err == nil {
			err = hasResults(results, 1)
		}
		if err == nil {
			page = results[0]
		}
		return err
	})
	return page, err
}

var _ storage.BanLister = (*Store)(nil)
