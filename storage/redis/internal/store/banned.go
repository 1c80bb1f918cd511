package store

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// Banned implements [storage.BanLister]. It looks at all keys of the server, and of each node of a
// cluster: a set of those banned would cost each offense another write.
func (s *Store) Banned(ctx context.Context, now int64, most int) (banned map[storage.Key]reputation.Record, err error) {
	banned = make(map[storage.Key]reputation.Record)
	for _, node := range s.client.Nodes() {
		var scan rueidis.ScanEntry
		for more := true; more && err == nil && len(banned) < most; more = scan.Cursor != 0 {
			err = s.beside(ctx, "bans", func(ctx context.Context) (err error) {
				scan, err = node.Do(ctx, node.B().Scan().Cursor(scan.Cursor).Match(s.names.records()+"*").Count(stepLooks).Build()).AsScanEntry()
				if err != nil {
					return err
				}
				values, err := rueidis.MGet(s.client, ctx, scan.Elements)
				for name, value := range values {
					record, _ := value.ToString() // "" if it has expired meanwhile, which bans nobody
					key, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(name, s.names.records()))
					if len(key) == len(storage.Key{}) {
						cells.AddBanned(banned, storage.Key(key), []byte(record), now, most)
					}
				}
				return err
			})
		}
	}
	return banned, err
}

var _ storage.BanLister = (*Store)(nil)
