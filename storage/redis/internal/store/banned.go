package store

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// Banned implements [storage.BanLister]. It looks at all keys of the server, of each node of a
// cluster: a set of the banned ones would cost every offense a write.
func (s *Store) Banned(ctx context.Context, now int64, most int) (list []storage.Banned, err error) {
	seen := make(map[string]bool) // a scan may return a key twice, and so may a replica
	for _, node := range s.client.Nodes() {
		for cursor, more := uint64(0), true; more && err == nil && len(list) < most; more = cursor != 0 {
			err = s.beside(ctx, "bans", func(ctx context.Context) error {
				scan, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(s.names.records()+"*").Count(stepLooks).Build()).AsScanEntry()
				if err != nil {
					return err
				}
				cursor = scan.Cursor
				var keys []string
				for _, key := range scan.Elements {
					if !seen[key] {
						keys = append(keys, key)
					}
				}
				list, err = s.appendBanned(ctx, list, keys, seen, now)
				return err
			})
		}
	}
	return list[:min(len(list), max(most, 0))], err
}

// appendBanned appends those of the records with some keys that are of banned clients.
func (s *Store) appendBanned(ctx context.Context, list []storage.Banned, keys []string, seen map[string]bool, now int64) ([]storage.Banned, error) {
	if len(keys) == 0 {
		return list, nil
	}
	values, err := s.client.Do(ctx, s.client.B().Mget().Key(keys...).Build()).ToArray()
	if err != nil {
		return list, err
	}
	for i, message := range values {
		value, err := message.ToString()
		name, malformed := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(keys[i], s.names.records()))
		if err != nil || malformed != nil || len(name) != len(storage.Key{}) {
			continue // expired meanwhile, or somebody else's
		}
		r := cells.ParseRecord([]byte(value))
		if r.Clamp(now); r.Banned(now) && !seen[keys[i]] {
			seen[keys[i]] = true
			list = append(list, storage.Banned{Key: storage.Key(name), Record: r})
		}
	}
	return list, nil
}

var _ storage.BanLister = (*Store)(nil)
