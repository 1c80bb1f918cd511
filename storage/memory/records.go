package memory

import (
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// The size of a record in bytes: its key and value, twice because a map that has grown is half empty, and each
// violation.
const (
	recordBytes    = 2 * (16 + 72)
	violationBytes = 16
)

func bytesOf(r reputation.Record) int64 { return recordBytes + violationBytes*int64(cap(r.Past)) }

// Records implements [storage.Store].
func (s *Store) Records(ctx context.Context, term *storage.Term, clients []storage.Client,
	records []reputation.Record) error {
	return s.with(ctx, "records", func(db *Database) error {
		if err := storage.CheckRecords(len(clients), records); err != nil {
			return err
		}
		t, err := s.enterLocked(term)
		if err != nil {
			return err
		}
		for i, client := range clients {
			records[i] = db.recordLocked(client, t)
		}
		return nil
	})
}

// Punish implements [storage.Store].
func (s *Store) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense,
	records []reputation.Record) error {
	return s.with(ctx, "punish", func(db *Database) error {
		if err := storage.CheckRecords(len(offenses), records); err != nil || len(offenses) == 0 {
			return err
		}
		t, err := s.enterLocked(term)
		if err != nil {
			return err
		}
		if err := s.checkRoomLocked(t); err != nil {
			return err
		}
		for i, o := range offenses {
			t.Now = o.At
			known := db.recordLocked(o.Client, t)
			known.Commit(o.Offense)
			db.keepLocked(o.Key, known, t)
			records[i] = known
		}
		return nil
	})
}

// recordLocked returns a copy of a client's record at a time, and moves a record under its former name.
//
// Records are stored with times that were never set. So they last as long as they would have if the time is set.
func (db *Database) recordLocked(client storage.Client, t storage.Time) reputation.Record {
	known, _ := db.loadLocked(client.Key, t)
	if !client.IsRenamed() {
		return known
	}
	former, found := db.loadLocked(client.Former, t)
	if !found {
		return known
	}
	known = known.Merge(former)
	db.dropLocked(client.Former)
	db.keepLocked(client.Key, known, t)
	return known
}

func (db *Database) loadLocked(key storage.Key, t storage.Time) (r reputation.Record, found bool) {
	r, found = db.shardOf(key).clients[key]
	r.Past = slices.Clone(r.Past)
	r.Move(t.Shift)
	r.Clamp(t.Now)
	return r, found
}

func (db *Database) keepLocked(key storage.Key, r reputation.Record, t storage.Time) {
	db.dropLocked(key)
	sh := db.shardOf(key)
	if sh.clients == nil {
		sh.clients = make(map[storage.Key]reputation.Record)
	}
	r.Past = slices.Clone(r.Past)
	r.Move(-t.Shift)
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

// Banned implements [storage.Store]. It locks the database for one shard at a time.
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
