package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/cells"
)

// Records of clients are read, changed here, and written back if they were not changed meanwhile. Their
// scores are floating-point numbers, which scripts might compute differently.

// Records implements [storage.Store].
func (s *Store) Records(ctx context.Context, term *storage.Term, clients []storage.Client, records []reputation.Record) error {
	if err := storage.CheckRecords(len(clients), records); err != nil {
		return fmt.Errorf("redis: records: %w", err)
	}
	read := newReading(s.names, clients)
	r, err := s.inTerm(ctx, term, read.call("records"))
	if err != nil {
		return err
	}
	return s.takeRecords(ctx, term, read, r, records)
}

// takeRecords returns the records that a call has read, and moves records under former names. If another
// process is changing them, the next call moves them.
func (s *Store) takeRecords(ctx context.Context, term *storage.Term, read *reading, r reply, records []reputation.Record) error {
	if err := read.take(r.more); err != nil {
		return fmt.Errorf("redis: records: %w", err)
	}
	for i, client := range read.clients {
		records[i] = read.record(client, r.asof)
	}
	if len(read.changed) == 0 {
		return nil
	}
	if _, err := s.inTerm(ctx, term, read.put("records", nil)); !errors.Is(err, storage.ErrTerm) {
		return err
	}
	return nil
}

// maxPunishments is how often records are read and changed again because another process has changed
// them meanwhile.
const maxPunishments = 20

// Punish implements [storage.Store].
func (s *Store) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense, records []reputation.Record) error {
	if err := storage.CheckRecords(len(offenses), records); err != nil {
		return fmt.Errorf("redis: punish: %w", err)
	}
	clients := make([]storage.Client, len(offenses))
	for i := range offenses {
		clients[i] = offenses[i].Client
	}
	read := newReading(s.names, clients)
	r, err := s.inTerm(ctx, term, read.call("punish"))
	for range maxPunishments {
		if err != nil || len(offenses) == 0 {
			return err
		}
		if err := read.take(r.more); err != nil {
			return fmt.Errorf("redis: punish: %w", err)
		}
		for i, o := range offenses {
			records[i] = read.commit(o)
		}
		if r, err = s.inTerm(ctx, term, read.put("punish", clients)); err != nil || r.status != "changed" {
			return err
		}
	}
	return errors.New("redis: punish: other processes keep changing the same records")
}

// stepLooks is about how many keys a step of a scan examines.
const stepLooks = 500

// Banned implements [storage.Store]. It scans all keys of the server, and of each node of a cluster,
// because a set of the banned clients would cost each offense another write.
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
					record, _ := value.ToString() // "" if it has expired meanwhile: no ban
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
