package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// What a record takes in bytes: its key and value, twice because a map that has
// grown is half empty, and each violation.
const (
	recordBytes    = 2 * (16 + 72)
	violationBytes = 16
)

func bytesOf(r reputation.Record) int64 { return recordBytes + violationBytes*int64(cap(r.Past)) }

// Standings implements [storage.Store].
func (s *Store) Standings(ctx context.Context, clients []storage.Client, now int64, records []reputation.Record) error {
	if len(clients) != len(records) {
		return fmt.Errorf("memory: standings: %d clients need as many records, got %d", len(clients), len(records))
	}
	return s.with(ctx, "standings", func(db *Database) error {
		for i, client := range clients {
			records[i] = db.recordLocked(client, now)
		}
		return nil
	})
}

// Punish implements [storage.Store].
func (s *Store) Punish(ctx context.Context, offenses []storage.Offense, records []reputation.Record) error {
	if len(offenses) != len(records) {
		return fmt.Errorf("memory: punish: %d offenses need as many records, got %d", len(offenses), len(records))
	}
	return s.with(ctx, "punish", func(db *Database) error {
		if len(offenses) == 0 {
			return nil
		}
		if err := s.checkRoomLocked(offenses[0].At); err != nil {
			return err
		}
		for i, o := range offenses {
			known := db.recordLocked(o.Client, o.At)
			known.Commit(o.Offense)
			db.keepLocked(o.Key, known)
			records[i] = copied(known)
		}
		return nil
	})
}

// recordLocked returns what is known of a client at now, and moves what is kept
// under its former name. The record is a copy.
func (db *Database) recordLocked(client storage.Client, now int64) reputation.Record {
	known := copied(db.shardOf(client.Key).clients[client.Key])
	known.Clamp(now)
	if client.Former == (storage.Key{}) || client.Former == client.Key {
		return known
	}
	former, found := db.shardOf(client.Former).clients[client.Former]
	if !found {
		return known
	}
	former = copied(former)
	former.Clamp(now)
	known = known.Merge(former)
	db.dropLocked(client.Former)
	db.keepLocked(client.Key, known)
	return copied(known)
}

func (db *Database) keepLocked(key storage.Key, r reputation.Record) {
	db.dropLocked(key)
	sh := db.shardOf(key)
	if sh.clients == nil {
		sh.clients = make(map[storage.Key]reputation.Record)
	}
	sh.clients[key] = r
	db.bytes += bytesOf(r)
}

func (db *Database) dropLocked(key storage.Key) {
	sh := db.shardOf(key)
	if r, found := sh.clients[key]; found {
		db.bytes -= bytesOf(r)
		delete(sh.clients, key)
	}
}

// copied returns a record that shares nothing with r.
func copied(r reputation.Record) reputation.Record {
	r.Past = slices.Clone(r.Past)
	return r
}
