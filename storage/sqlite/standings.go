package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// standings reads and writes the records of clients.
type standings struct {
	read   *stmt
	write  *stmt
	remove *stmt
	past   []byte // a buffer for the past of one record
	shift  int64  // the difference between times in records and in the table
}

// prepareReads prepares the reading statements.
func (st *standings) prepareReads(db *conn) (err error) {
	st.read, err = db.prepare(`SELECT `+recordColumns+` FROM standings WHERE key = ?`, 1, 7)
	return err
}

func (st *standings) prepare(db *conn) error {
	if err := st.prepareReads(db); err != nil {
		return err
	}
	return db.prepareAll([]prepared{
		{&st.write, `INSERT INTO standings (key, at, lost, level, until, bans, past, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET at = excluded.at, lost = excluded.lost, level = excluded.level,
			    until = excluded.until, bans = excluded.bans, past = excluded.past, expires = excluded.expires`, 8, 0},
		{&st.remove, `DELETE FROM standings WHERE key = ?`, 1, 0},
	})
}

// Records implements [storage.Store].
func (s *Store) Records(ctx context.Context, term *storage.Term, clients []storage.Client,
	records []reputation.Record) error {
	if err := storage.CheckRecords(len(clients), records); err != nil {
		return wrap("standings", err)
	}
	if a := s.periods.alone.Load(); a != nil && ctx.Err() == nil {
		if err := s.reader.recordsAlone(a, term, clients, records); err != errTransaction {
			return s.place.failed(wrap("standings", err))
		}
	}
	return s.tx.inTerm(ctx, term, "standings", func() (written int64, err error) {
		st := s.clients.in(term)
		for i, client := range clients {
			known, moved, err := st.find(client, term.Time.Now)
			if err != nil {
				return 0, err
			}
			if moved {
				if err := st.keep(client, known); err != nil {
					return 0, err
				}
				written++
			}
			records[i] = known
		}
		return written, nil
	})
}

// Punish implements [storage.Store].
func (s *Store) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense,
	records []reputation.Record) error {
	if err := storage.CheckRecords(len(offenses), records); err != nil {
		return wrap("punish", err)
	}
	return s.tx.inTerm(ctx, term, "punish", func() (written int64, err error) {
		st := s.clients.in(term)
		for i, o := range offenses {
			known, _, err := st.find(o.Client, o.At)
			if err != nil {
				return 0, err
			}
			known.Commit(o.Offense)
			if err := st.keep(o.Client, known); err != nil {
				return 0, err
			}
			records[i] = known
		}
		return int64(len(offenses)), nil
	})
}

// in sets the term in whose times records are.
func (st *standings) in(term *storage.Term) *standings {
	st.shift = term.Shift
	return st
}

// find returns the record of a client at now. moved reports whether a part of it was under the former name.
func (st *standings) find(client storage.Client, now int64) (known reputation.Record, moved bool, err error) {
	if known, _, err = st.load(client.Key, now); err != nil || client.Former == (storage.Key{}) {
		return known, false, err
	}
	former, found, err := st.load(client.Former, now)
	if err != nil || !found {
		return known, false, err
	}
	return known.Merge(former), true, nil // known is not zero if another process has moved a record before
}

func (st *standings) load(key storage.Key, now int64) (r reputation.Record, found bool, err error) {
	st.read.bind(0, key[:])
	err = st.read.each(func(row []driver.Value) (err error) {
		r, err = scanRecord(row)
		found = true
		return err
	})
	r.Move(st.shift)
	r.Clamp(now)
	return r, found, err
}

const recordColumns = `at, lost, level, until, bans, expires, past`

// scanRecord parses a row of recordColumns.
func scanRecord(row []driver.Value) (r reputation.Record, err error) {
	var level, bans int64
	if err := integers(row[:6], &r.At, &r.Lost, &level, &r.Until, &bans, &r.Counts); err != nil {
		return r, err
	}
	past, ok := row[6].([]byte)
	if !ok {
		return r, errDamaged(fmt.Sprintf("a value is %T where bytes belong", row[6]))
	}
	r.Level, r.Bans = reputation.Level(min(max(level, 0), int64(reputation.Critical))), int(bans)
	r.Past = reputation.ParsePast(past)
	return r, nil
}

// Banned implements [storage.Store].
func (s *Store) Banned(ctx context.Context, now int64, most int) (banned map[storage.Key]reputation.Record, err error) {
	banned = make(map[storage.Key]reputation.Record)
	err = s.log.look(ctx, "bans", func(c *conn) error {
		return c.each(`SELECT `+recordColumns+`, key FROM standings WHERE until > ? LIMIT ?`,
			func(row []driver.Value) error {
				r, err := scanRecord(row)
				r.Clamp(now)
				var key storage.Key
				if name, ok := row[7].([]byte); !ok || copy(key[:], name) < len(key) {
					return errDamaged("a record has no name")
				}
				banned[key] = r
				return err
			}, now, int64(max(most, 0)))
	})
	return banned, err
}

// keep writes a record under the client's name, and deletes that under the former one.
func (st *standings) keep(client storage.Client, r reputation.Record) error {
	r.Move(-st.shift)
	st.past = r.AppendPast(st.past[:0])
	if err := st.write.run(client.Key[:], r.At, r.Lost, int64(r.Level), r.Until, int64(r.Bans), st.past,
		r.Expires()); err != nil {
		return fmt.Errorf("write standings: %w", err)
	}
	if client.Former == (storage.Key{}) {
		return nil
	}
	if err := st.remove.run(client.Former[:]); err != nil {
		return fmt.Errorf("move standings: %w", err)
	}
	return nil
}
