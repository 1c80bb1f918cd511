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

// records are the records of clients. They are read, changed here, and written back if they were not
// changed meanwhile. Their scores are floating-point numbers, which scripts might compute differently.
type records struct{ machine *machine }

// Records implements [storage.Store].
func (c records) Records(ctx context.Context, term *storage.Term, clients []storage.Client,
	list []reputation.Record) error {
	if err := storage.CheckRecords(len(clients), list); err != nil {
		return fmt.Errorf("redis: records: %w", err)
	}
	read := newReading(c.machine.server.names, clients)
	r, err := c.machine.inTerm(ctx, term, read.call("records"))
	if err != nil {
		return err
	}
	return c.take(ctx, term, read, r, list)
}

// take returns the records that a call has read, and moves records under former names. If another
// process is changing them, the next call moves them.
func (c records) take(ctx context.Context, term *storage.Term, read *reading, r reply, list []reputation.Record) error {
	if err := read.take(r.more); err != nil {
		return fmt.Errorf("redis: records: %w", err)
	}
	for i, client := range read.clients {
		list[i] = read.record(client, r.asof)
	}
	if len(read.changed) == 0 {
		return nil
	}
	if _, err := c.machine.inTerm(ctx, term, read.put("records", nil)); !errors.Is(err, storage.ErrTerm) {
		return err
	}
	return nil
}

// maxPunishments is how often records are read and changed again because another process has changed
// them meanwhile.
const maxPunishments = 20

// Punish implements [storage.Store].
func (c records) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense,
	list []reputation.Record) error {
	if err := storage.CheckRecords(len(offenses), list); err != nil {
		return fmt.Errorf("redis: punish: %w", err)
	}
	clients := make([]storage.Client, len(offenses))
	for i := range offenses {
		clients[i] = offenses[i].Client
	}
	read := newReading(c.machine.server.names, clients)
	r, err := c.machine.inTerm(ctx, term, read.call("punish"))
	for range maxPunishments {
		if err != nil || len(offenses) == 0 {
			return err
		}
		if err := read.take(r.more); err != nil {
			return fmt.Errorf("redis: punish: %w", err)
		}
		for i, o := range offenses {
			list[i] = read.commit(o)
		}
		if r, err = c.machine.inTerm(ctx, term, read.put("punish", clients)); err != nil || r.status != "changed" {
			return err
		}
	}
	return errors.New("redis: punish: other processes keep changing the same records")
}

// stepLooks is about how many keys a step of a scan examines.
const stepLooks = 500

// Banned implements [storage.Store]. It scans all keys of the server, and of each node of a cluster,
// because a set of the banned clients would cost each offense another write.
func (c records) Banned(ctx context.Context, now int64, most int) (banned map[storage.Key]reputation.Record,
	err error) {
	banned = make(map[storage.Key]reputation.Record)
	for _, node := range c.machine.server.client.Nodes() {
		var scan rueidis.ScanEntry
		for more := true; more && err == nil && len(banned) < most; more = scan.Cursor != 0 {
			err = c.machine.server.beside(ctx, "bans", func(ctx context.Context) (err error) {
				scan, err = node.Do(ctx,
					node.B().Scan().Cursor(scan.Cursor).Match(c.machine.server.names.records()+
						"*").Count(stepLooks).Build()).AsScanEntry()
				if err != nil {
					return err
				}
				values, err := rueidis.MGet(c.machine.server.client, ctx, scan.Elements)
				for name, value := range values {
					record, _ := value.ToString() // "" if it has expired meanwhile: no ban
					key, _ := base64.RawURLEncoding.DecodeString(
						strings.TrimPrefix(name, c.machine.server.names.records()))
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
