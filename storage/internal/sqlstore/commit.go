package sqlstore

import (
	"context"
	"slices"
	"strconv"
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
func (s *Store) commitLocked(ctx, trips context.Context, c Conn, tx *transaction) error {
	sql := s.place.script()
	for _, l := range tx.locks {
		if !l.peek {
			sql.write(l.table, tx.rows[l.table])
		}
	}
	sql.sql = append(sql.sql, tx.more.sql...)
	sql.add("UPDATE ", table("machines"), " SET batches = ", s.sent+1, ", expires = ", serverClock, " + ", machineStays,
		", time = GREATEST(time, ", tx.at.Now, ") WHERE id = ", s.id).end().add("COMMIT")
	_, err := s.place.run(trips, c, sql)
	if err == nil {
		s.acknowledgeLocked()
		return nil
	}
	s.place.rollback(trips, c)
	if faultOf(err) == Busy {
		return err // other batches hold locks, so the server has not committed
	}
	// An error doesn't prove that: a proxy returns one when it loses the server during the COMMIT.
	return s.resolveLocked(ctx, err)
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
		s.insert(t, written, rowOf).add(" ON CONFLICT (name) DO UPDATE SET state = excluded.state, expires = excluded.expires").end()
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
	for i, name := range names {
		if i > 0 {
			s.sql = append(s.sql, ", "...)
		}
		r := rowOf(name)
		s.sql = append(s.sql, '(')
		s.literal([]byte(name))
		s.sql = append(s.sql, ", "...)
		s.literal(r.state)
		s.sql = append(s.sql, ", "...)
		s.sql = append(strconv.AppendInt(s.sql, r.expires, 10), ')')
	}
	return s
}
