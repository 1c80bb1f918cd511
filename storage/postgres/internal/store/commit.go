package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/caddy-tally/caddy-tally/storage"
)

// writes reports whether a transaction changes anything.
func (tx *transaction) writes() bool {
	if tx.peek {
		return false
	}
	if len(tx.more.sql) > 0 {
		return true
	}
	for _, rows := range tx.rows {
		for _, r := range rows {
			if r.changed() {
				return true
			}
		}
	}
	return false
}

// commitLocked writes the changes and commits, in one round trip that must end before trips does. The
// rest of the time until ctx ends serves to find out whether the commit took effect.
func (bs *batches) commitLocked(ctx, trips context.Context, c conn, tx *transaction) error {
	sql := bs.place.script()
	for _, l := range tx.locks {
		if !l.peek {
			sql.write(l.table, tx.rows[l.table])
		}
	}
	sql.sql = append(sql.sql, tx.more.sql...)
	sql.add("UPDATE ", table("machines"), " SET batches = ", bs.machine.sent+1, ", expires = ", serverClock, " + ",
		machineStays,
		", time = GREATEST(time, ", tx.at.Now, ") WHERE id = ", bs.machine.id).end().add("COMMIT")
	_, err := bs.place.run(trips, c, sql)
	if err == nil {
		bs.machine.acknowledgeLocked()
		return nil
	}
	bs.place.rollback(trips, c)
	if faultOf(err) == busy {
		return err // other batches hold locks, so the server has not committed
	}
	// An error doesn't prove that: a proxy returns one when it loses the server during the COMMIT.
	return bs.resolveLocked(ctx, err)
}

// resolveLocked finds out whether a batch took effect, after its commit was answered with an error or
// not at all. It tries until the context ends. If the batch had no effect, it returns the cause.
func (bs *batches) resolveLocked(ctx context.Context, cause error) error {
	bs.machine.pending = true
	bs.hangUpLocked()
	results, err := bs.askBatchesLocked(ctx)
	for wait := firstWait; err != nil && await(ctx, wait); wait = min(2*wait, lastWait) {
		results, err = bs.askBatchesLocked(ctx)
	}
	if err != nil {
		bs.place.suspect(bs.machine.id)
		return fmt.Errorf("%w: %w", storage.ErrUnknownOutcome, cause)
	}
	before := bs.machine.sent
	if err := bs.machine.isCurrentLocked(results[0]); err != nil {
		return err
	}
	if bs.machine.sent == before {
		return cause
	}
	return nil
}

// askBatchesLocked reads the machine's row. It waits for the row's lock, which a batch holds until its
// end.
func (bs *batches) askBatchesLocked(ctx context.Context) (results []result, err error) {
	p := bs.place
	sql := p.begin()
	sql.add("SELECT batches FROM ", table("machines"), " WHERE id = ", bs.machine.id,
		" FOR UPDATE").end().add("ROLLBACK")
	err = bs.withLocked(ctx, func(c conn) (err error) {
		if results, err = p.run(ctx, c, sql); err != nil {
			p.rollback(ctx, c)
			return err
		}
		return hasResults(results, 1)
	})
	return results, err
}

// write writes the changed rows, in the order of their names. It deletes rows without a state, including
// those that were only created to be locked. It inserts missing rows first: an insertion may wait for
// another batch, and this one must not hold changed rows then that the other might wait for.
func (s *script) write(t table, rows map[string]*row) {
	var inserted, written, removed []string
	for name, r := range rows {
		switch {
		case r.missing && len(r.state) > 0:
			inserted = append(inserted, name)
		case r.missing:
		case len(r.state) == 0:
			removed = append(removed, name)
		case r.changed():
			written = append(written, name)
		}
	}
	rowOf := func(name string) *row { return rows[name] }
	if len(inserted) > 0 {
		s.insert(t, inserted, rowOf).end()
	}
	if len(written) > 0 {
		s.insert(t, written,
			rowOf).add(" ON CONFLICT (name) DO UPDATE SET state = excluded.state, expires = excluded.expires").end()
	}
	if len(removed) > 0 {
		slices.Sort(removed)
		s.add("DELETE FROM ", t, " WHERE name IN ").list(removed).end()
	}
}

// insert appends an INSERT of rows, in the order of their names. The caller ends the statement.
func (s *script) insert(t table, names []string, rowOf func(name string) *row) *script {
	slices.Sort(names)
	s.add("INSERT INTO ", t, " (name, state, expires) VALUES ")
	s.joined(len(names), func(i int) {
		r := rowOf(names[i])
		s.sql = append(s.sql, '(')
		s.literal([]byte(names[i]))
		s.sql = append(s.sql, ", "...)
		s.literal(r.state)
		s.sql = append(s.sql, ", "...)
		s.sql = append(strconv.AppendInt(s.sql, r.expires, 10), ')')
	})
	return s
}
