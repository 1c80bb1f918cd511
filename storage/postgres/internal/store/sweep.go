package store

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

// sweeper deletes expired rows, step by step.
type sweeper struct {
	chores  *chores
	machine *machine
	times   *times

	next position // where the last step stopped; guarded by the lock of chores
}

// position is a place in the tables that are swept.
type position struct {
	phase int    // the index in sweptTables of the next table, or its length at the end
	after string // the last row examined; "" before the first
}

var sweptTables = [...]table{"cells", "clients"}

// Sweep implements [storage.Store]. It reads some rows in the order of their names, and deletes those that have expired
// and that no batch has locked.
func (s *Store) Sweep(ctx context.Context, term *storage.Term) (storage.Swept, error) {
	return s.sweeper.step(ctx, term)
}

func (sw *sweeper) step(ctx context.Context, term *storage.Term) (swept storage.Swept, err error) {
	err = sw.chores.do(ctx, "sweep", func(ctx context.Context, c conn) error {
		swept = storage.Swept{}
		tx := &transaction{batch: &batch{clock: term.Clock}}
		names, err := sw.look(ctx, c, tx, term)
		if err != nil {
			return sw.times.correct(ctx, c, err)
		}
		if sw.next == (position{}) && tx.meta.server-tx.meta.swept < sweptLately && tx.meta.server > tx.meta.swept {
			return nil
		}
		if swept.Rows, err = sw.deleteExpired(ctx, c, tx, names.expired); err != nil {
			return err
		}
		swept.More, err = sw.goOn(ctx, c, tx, names)
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
func (sw *sweeper) look(ctx context.Context, c conn, tx *transaction, term *storage.Term) (seen looked, err error) {
	p := sw.chores.place
	sql := p.begin().selectMeta(false)
	if sw.next.phase < len(sweptTables) {
		sql.add("SELECT name, expires FROM ", sweptTables[sw.next.phase])
		if sw.next.after != "" {
			sql.add(" WHERE name > ", []byte(sw.next.after))
		}
		sql.add(" ORDER BY name LIMIT ", sweepRows).end()
	}
	results, err := sw.ask(ctx, c, tx, term, sql.add("COMMIT"))
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
func (sw *sweeper) ask(ctx context.Context, c conn, tx *transaction, term *storage.Term, sql *script) ([]result, error) {
	tx.ask()
	results, err := sw.chores.place.run(ctx, c, sql)
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
	if err := sw.machine.isSame(&tx.meta); err != nil {
		return nil, err
	}
	return results, sw.times.take(tx, term)
}

// deleteExpired deletes expired rows, unless another batch has locked or renewed them.
func (sw *sweeper) deleteExpired(ctx context.Context, c conn, tx *transaction, names []string) (deleted int64,
	err error) {
	if len(names) == 0 {
		return 0, nil
	}
	p, t := sw.chores.place, sweptTables[sw.next.phase]
	results, err := p.query(ctx, c, p.begin().
		add("SELECT name FROM ", t, " WHERE expires <= ", tx.at.Now, " AND name IN ").list(names).add(
		" ORDER BY name FOR UPDATE SKIP LOCKED"), 1)
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
func (sw *sweeper) goOn(ctx context.Context, c conn, tx *transaction, seen looked) (more bool, err error) {
	next := &sw.next
	if !seen.all {
		next.after = seen.last
		return true, nil
	}
	if next.phase, next.after = min(next.phase+1, len(sweptTables)), ""; next.phase < len(sweptTables) {
		return true, nil
	}
	if n, err := sw.chores.place.removeRows(ctx, c, rows.Expired(tx.at.Now), sweepRows); err != nil || n >= sweepRows {
		return true, err
	}
	if err := sw.dropOld(ctx, c, tx); err != nil {
		return false, err
	}
	if err := sw.chores.place.dropNotes(ctx, c, tx.at.Now); err != nil {
		return false, err
	}
	*next = position{}
	return false, nil
}

// dropOld removes the rows of old machines and resets, and notes the end of the sweep. It locks only the rows
// of machines that it deletes: every batch of a live machine holds the lock on its row. Resets are only written
// under the lock on meta, so dropOld takes that first.
func (sw *sweeper) dropOld(ctx context.Context, c conn, tx *transaction) error {
	sql := sw.chores.place.begin()
	sql.add("DELETE FROM ", table("machines"), " WHERE expires <= ", serverClock).end()
	sql.add("UPDATE ", table("meta"), " SET swept = ", serverClock, " WHERE id = 1").end()
	sql.add("DELETE FROM ", table("resets"), " WHERE at <= ", tx.at.Now-tx.at.Shift-int64(storage.KeepResets)).end()
	_, err := sw.chores.place.run(ctx, c, sql.add("COMMIT"))
	return err
}
