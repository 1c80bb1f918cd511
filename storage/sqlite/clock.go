package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
)

// clock reads and writes the time of the store, a row of the database that all processes share. Every
// transaction reads it. A transaction that writes rows also writes the time if the row is old. Any
// other transaction writes it only if the time could otherwise not be computed later from the row and
// a steady clock.
type clock struct {
	read, write *stmt

	own     storage.TimeRecord // the last time of this process
	row     storage.TimeRecord // the row, as read in this transaction
	present storage.TimeRecord // the time of this transaction
	reading storage.Reading
	must    bool // present must be written
}

func (c *clock) prepare(db *conn) error {
	return db.prepareAll([]prepared{
		{&c.read, `SELECT now, apart, shift, era, resets, steady, astray, source FROM clock`, 0, 8},
		{&c.write, `UPDATE clock SET now = ?, apart = ?, shift = ?, era = ?, steady = ?, astray = ?, source = ?`, 7, 0},
	})
}

// tell reads the clock and sets the time of a term. The transaction must hold the database's lock.
func (c *clock) tell(term *storage.Term) error {
	if err := c.load(); err != nil {
		return err
	}
	c.reading = term.Clock.Read()
	c.present, c.must = c.row.Tell(c.reading, c.own)
	term.Time = c.present.Time
	return nil
}

func (c *clock) load() error {
	found := false
	err := c.read.each(func(row []driver.Value) error {
		r := &c.row
		if err := integers(row[:7], &r.Now, &r.Apart, &r.Shift, &r.Era, &r.Resets, &r.Steady, &r.Astray); err != nil {
			return err
		}
		source, ok := row[7].([]byte)
		found = ok
		clear(r.Source[:])
		copy(r.Source[:], source)
		return nil
	})
	if err == nil && !found {
		err = errDamaged("it has no time")
	}
	return err
}

// keep writes the time of the transaction if it must be written, or if the transaction has written rows
// and the row of the time is old. It returns how many rows it wrote.
func (c *clock) keep(term *storage.Term, wrote bool) (written int64, err error) {
	if !c.must && !(wrote && c.row.Due(c.present, c.reading)) {
		c.own = c.present
		return 0, nil
	}
	c.present = c.present.Measured(c.reading)
	t := &c.present
	if err := c.write.run(t.Now, t.Apart, t.Shift, t.Era, t.Steady, t.Astray, t.Source[:]); err != nil {
		return 0, fmt.Errorf("write the time: %w", err)
	}
	c.own, term.Time = c.present, c.present.Time
	return 1, nil
}

// forget drops the last time, which may not have been committed.
func (c *clock) forget() { c.own = storage.TimeRecord{} }

// limitOf returns the ID of a limit in the database. It differs from era to era, so that counts of
// other eras are not found. Sweeps delete them.
func limitOf(id storage.LimitID, era int64) storage.LimitID {
	const spread = 0x9E3779B97F4A7C15 // 2^64 over the golden ratio
	return id ^ storage.LimitID(era)*spread
}

// Time implements [storage.Store].
func (s *Store) Time(from storage.Clock, least int64) (storage.Time, error) {
	term := storage.Term{Clock: from}
	err := s.tx.do(background, "time", func() (int64, error) {
		c := &s.tx.clock
		if err := c.tell(&term); err != nil {
			return 0, err
		}
		if c.row.Lost(c.reading) {
			c.present = c.present.NotBefore(least, c.reading)
		}
		return c.keep(&term, false)
	})
	return term.Time, err
}
