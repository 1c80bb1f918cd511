package sqlstore

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/rows"
)

const (
	// sweepRows is how many rows one step of a sweep examines.
	sweepRows = 1000
	// sweptLately is the pause after a sweep by any machine, in nanoseconds.
	sweptLately = int64(30e9)
)

// sweeper remembers where the last step stopped.
type sweeper struct {
	phase int    // the index in sweptTables of the next table, or its length at the end
	after string // the last row examined; "" before the first
}

var sweptTables = [...]table{"cells", "clients"}

// Sweep implements [storage.Store]. It reads some rows in the order of their names, and deletes those that have expired and that no batch has locked.
func (s *Store) Sweep(ctx context.Context, term *storage.Term) (swept storage.Swept, err error) {
	err = s.chore(ctx, "sweep", func(ctx context.Context, c Conn) error {
		swept = storage.Swept{}
		tx := &transaction{batch: &batch{clock: term.Clock}}
		names, err := s.look(ctx, c, tx, term)
		if err != nil {
			return s.correct(ctx, c, err)
		}
		if s.sweeping == (sweeper{}) && tx.meta.server-tx.meta.swept < sweptLately && tx.meta.server > tx.meta.swept {
			return nil
		}
		if swept.Rows, err = s.deleteExpired(ctx, c, tx, names.expired); err != nil {
			return err
		}
		swept.More, err = s.goOn(ctx, c, tx, names)
		return err
	})
	return swept, err
}

// looked is the result of look.
type looked struct {
	expired []string
	last    string // the last row, "" if there was none
	all     bool   // there are no later rows
}

// look reads the rows that a step examines, and the time.
func (s *Store) look(ctx context.Context, c Conn, tx *transaction, term *storage.Term) (seen looked, err error) {
	p := s.place
	sql := p.begin().selectMeta(false)
	if s.sweeping.phase < len(sweptTables) {
		sql.add("SELECT name, expires FROM ", sweptTables[s.sweeping.phase])
		if s.sweeping.after != "" {
			sql.add(" WHERE name > ", []byte(s.sweeping.after))
		}
		sql.add(" ORDER BY name LIMIT ", sweepRows).end()
	}
	results, err := s.ask(ctx, c, tx, term, sql.add("COMMIT"))
	if err != nil {
		return seen, err
	}
	if len(results) == 1 {
		return looked{all: true}, nil
	}
	rows := results[1]
	seen.all = len(rows) < sweepRows
	for _, values := range rows {
		var expires int64
		if err := numbers(values[1:], &expires); err != nil {
			return seen, err
		}
		seen.last = string(values[0])
		if expires <= tx.at.Now {
			seen.expired = append(seen.expired, seen.last)
		}
	}
	return seen, nil
}

// ask runs a script that reads meta first, and computes the time.
func (s *Store) ask(ctx context.Context, c Conn, tx *transaction, term *storage.Term, sql *script) ([]Rows, error) {
	tx.ask()
	results, err := s.place.run(ctx, c, sql)
	tx.answered()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 {
		return nil, hasResults(results, 1)
	}
	if err := tx.meta.read(results[0]); err != nil {
		return nil, err
	}
	if err := s.isSame(&tx.meta); err != nil {
		return nil, err
	}
	return results, s.takeTime(tx, term)
}

// deleteExpired deletes expired rows, unless another batch has locked or renewed them.
func (s *Store) deleteExpired(ctx context.Context, c Conn, tx *transaction, names []string) (deleted int64, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	p, t := s.place, sweptTables[s.sweeping.phase]
	results, err := p.query(ctx, c, p.begin().
		add("SELECT name FROM ", t, " WHERE expires <= ", tx.at.Now, " AND name IN ").list(names).add(" ORDER BY name FOR UPDATE SKIP LOCKED"), 1)
	if err != nil {
		return 0, err
	}
	names = names[:0]
	for _, values := range results[0] {
		names = append(names, string(values[0]))
	}
	sql := p.script()
	if len(names) > 0 {
		sql.add("DELETE FROM ", t, " WHERE name IN ").list(names).end()
	}
	_, err = p.run(ctx, c, sql.add("COMMIT"))
	return int64(len(names)), err
}

// goOn notes where the next step continues, and reports whether there is more to do. At the end it
// removes old rows of the other tables. If that fails, the next step retries it.
func (s *Store) goOn(ctx context.Context, c Conn, tx *transaction, seen looked) (more bool, err error) {
	sw := &s.sweeping
	if !seen.all {
		sw.after = seen.last
		return true, nil
	}
	if sw.phase, sw.after = min(sw.phase+1, len(sweptTables)), ""; sw.phase < len(sweptTables) {
		return true, nil
	}
	if n, err := s.place.removeRows(ctx, c, rows.Expired(tx.at.Now), sweepRows); err != nil || n >= sweepRows {
		return true, err
	}
	if err := s.dropOld(ctx, c, tx); err != nil {
		return false, err
	}
	if err := s.dropNotes(ctx, c, tx.at.Now); err != nil {
		return false, err
	}
	*sw = sweeper{}
	return false, nil
}

// dropOld removes the rows of old machines and resets, and notes the end of the sweep. It locks only the rows
// of machines that it deletes: every batch of a live machine holds the lock on its row. Resets are only written
// under the lock on meta, so dropOld takes that first.
func (s *Store) dropOld(ctx context.Context, c Conn, tx *transaction) error {
	sql := s.place.begin()
	sql.add("DELETE FROM ", table("machines"), " WHERE expires <= ", serverClock).end()
	sql.add("UPDATE ", table("meta"), " SET swept = ", serverClock, " WHERE id = 1").end()
	sql.add("DELETE FROM ", table("resets"), " WHERE at <= ", tx.at.Now-tx.at.Shift-int64(storage.KeepResets)).end()
	_, err := s.place.run(ctx, c, sql.add("COMMIT"))
	return err
}
