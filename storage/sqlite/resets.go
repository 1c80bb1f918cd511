package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
)

// resets performs and notes resets of keys and clients.
type resets struct {
	known, newest, since         *stmt
	counters, buckets, standings *stmt // delete the rows of a key
	note, number, drop           *stmt
}

func (r *resets) prepare(db *conn) error {
	return db.prepareAll([]prepared{
		{&r.known, `SELECT number, at, found FROM resets WHERE id = ?`, 1, 3},
		{&r.newest, `SELECT resets FROM clock`, 0, 1},
		{&r.since, `SELECT c.resets, r.number, r.id, r.at, r.client, r.limit_id, r.found, r.key, r.former
			FROM clock AS c LEFT JOIN resets AS r ON r.number > ? AND r.number <= c.resets ORDER BY r.number`, 1, 9},
		// The query finds the windows with rows one by one: there are few windows, and many keys in
		// each.
		{&r.counters, `WITH RECURSIVE w (window) AS (
				SELECT (SELECT min(window) FROM counters WHERE limit_id = ?1)
				UNION ALL
				SELECT (SELECT min(c.window) FROM counters AS c WHERE c.limit_id = ?1 AND c.window > w.window)
				FROM w WHERE w.window IS NOT NULL)
			DELETE FROM counters WHERE limit_id = ?1 AND window IN (SELECT window FROM w) AND key IN (?2, ?3)`, 3, 0},
		{&r.buckets, `DELETE FROM buckets WHERE limit_id = ? AND key IN (?, ?)`, 3, 0},
		{&r.standings, `DELETE FROM standings WHERE key IN (?, ?)`, 2, 0},
		{&r.note,
			`INSERT INTO resets (number, id, at, client, limit_id, key, former, found) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, 8, 0},
		{&r.number, `UPDATE clock SET resets = ?`, 1, 0},
		{&r.drop, `DELETE FROM resets WHERE number <= ?`, 1, 0},
	})
}

// Reset implements [storage.Store].
func (s *Store) Reset(ctx context.Context, term *storage.Term, resets []storage.Reset) error {
	return s.tx.with(ctx, "reset", func() error {
		if a := s.periods.alone.Load(); a != nil {
			a.resets.Store(unknownResets)
		}
		if err := s.folds.foldAllLocked(); err != nil {
			return err
		}
		return s.tx.inTermLocked(term, func() (int64, error) { return s.resets.run(term, resets, &s.tx.clock) })
	})
}

// run performs resets inside a transaction, and returns how many rows it wrote.
func (r *resets) run(term *storage.Term, resets []storage.Reset, c *clock) (written int64, err error) {
	newest := term.Time.Resets
	for i := range resets {
		n, err := r.apply(&resets[i], term, &newest)
		if err != nil {
			return 0, err
		}
		written += n
	}
	if written == 0 {
		return 0, nil
	}
	if err := r.number.run(newest); err != nil {
		return 0, fmt.Errorf("write the time: %w", err)
	}
	err = r.drop.run(newest - storage.MaxResets)
	c.present.Resets, term.Time.Resets = newest, newest
	return written, err
}

// apply performs and notes a reset, unless it is noted already. It returns how many rows it wrote.
func (r *resets) apply(reset *storage.Reset, term *storage.Term, newest *int64) (written int64, err error) {
	known := false
	r.known.bind(0, reset.ID)
	err = r.known.each(func(row []driver.Value) error {
		known = true
		var found int64
		err := integers(row, &reset.Number, &reset.At, &found)
		reset.Found = found != 0
		return err
	})
	if err != nil || known {
		return 0, err
	}
	forgotten, err := r.forget(reset, term.Era)
	if err != nil {
		return 0, err
	}
	*newest++
	reset.Number, reset.At, reset.Found = *newest, term.Time.Now-term.Time.Shift, forgotten > 0
	err = r.note.run(reset.Number, reset.ID, reset.At, boolean(reset.Client), int64(reset.Limit), reset.Key[:],
		reset.Former[:], boolean(reset.Found))
	return forgotten + 1, err
}

// forget deletes the rows of a reset's key or client.
func (r *resets) forget(reset *storage.Reset, era int64) (rows int64, err error) {
	former := reset.Former
	if former == (storage.Key{}) {
		former = reset.Key
	}
	if reset.Client {
		return r.standings.exec(reset.Key[:], former[:])
	}
	id := int64(limitOf(reset.Limit, era))
	for _, s := range []*stmt{r.counters, r.buckets} {
		n, err := s.exec(id, reset.Key[:], former[:])
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, nil
}

// Resets implements [storage.Store].
func (s *Store) Resets(ctx context.Context, after int64) (known storage.Resets, err error) {
	a := s.periods.alone.Load()
	if a != nil && a.resets.Load() == after {
		return storage.Resets{Newest: after}, nil // in a period no other process can have reset anything
	}
	err = s.tx.with(ctx, "resets", func() error {
		if err := s.place.check(); err != nil {
			return err
		}
		if err := s.tx.rollbackLocked(); err != nil {
			return err
		}
		known, err = s.resets.after(after)
		if err == nil && a != nil && s.periods.alone.Load() == a {
			a.resets.Store(known.Newest)
		}
		return err
	})
	return known, err
}

func (r *resets) after(number int64) (storage.Resets, error) {
	var known storage.Resets
	err := r.newest.read(&known.Newest)
	if err != nil || known.Newest == number {
		return known, err
	}
	r.since.bind(0, number)
	err = r.since.each(func(row []driver.Value) error {
		if err := integers(row, &known.Newest); err != nil || row[1] == nil {
			return err
		}
		reset, err := parseReset(row[1:])
		known.List = append(known.List, reset)
		return err
	})
	known.Lost = int64(len(known.List)) != known.Newest-number
	return known, err
}

// parseReset parses a row of the table.
func parseReset(row []driver.Value) (reset storage.Reset, err error) {
	var client, limit, found int64
	err = integers(row[:6], &reset.Number, &reset.ID, &reset.At, &client, &limit, &found)
	if err != nil {
		return reset, err
	}
	key, ok := row[6].([]byte)
	former, isBytes := row[7].([]byte)
	if !ok || !isBytes {
		return reset, errDamaged("a reset has no key")
	}
	copy(reset.Key[:], key)
	copy(reset.Former[:], former)
	reset.Client, reset.Limit, reset.Found = client != 0, storage.LimitID(limit), found != 0
	return reset, nil
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
