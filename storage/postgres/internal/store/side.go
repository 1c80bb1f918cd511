package store

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/rows"
)

// side implements [rows.Backend]. Its transactions are no batches of a machine: no claim waits for them, and what
// they decide is found again if they are repeated.
type side struct{ *chores }

// Update implements [rows.Backend].
func (s side) Update(ctx context.Context, doing string, names []string, decide func(rows map[string][]byte)) error {
	locks := locksOn("side", names)
	return s.do(ctx, doing, func(ctx context.Context, c conn) error {
		tx := &transaction{batch: &batch{locks: locks}, rows: make(map[table]map[string]*row), more: s.place.script()}
		sql := s.place.begin()
		sql.lock(locks[0])
		results, err := s.place.query(ctx, c, sql, 1)
		if err == nil {
			err = tx.take(locks[0], results[0])
		}
		if err != nil {
			return err
		}
		kept, values := tx.rows["side"], make(map[string][]byte, len(names))
		for name, r := range kept {
			values[name] = r.state
		}
		decide(values)
		for name, r := range kept {
			r.state = values[name]
		}
		if !tx.writes() {
			s.place.rollback(ctx, c)
			return nil
		}
		sql = s.place.script()
		sql.write("side", kept)
		_, err = s.place.run(ctx, c, sql.add("COMMIT"))
		return err
	})
}

// Scan implements [rows.Backend].
func (s side) Scan(ctx context.Context, doing string, r rows.Range, f func(name string, value []byte)) error {
	sql := s.place.script().add("SELECT name, state FROM ").within(r)
	if r.Rest != "" {
		sql.add(" AND substr(name, 6) = ", []byte(r.Rest))
	}
	if r.Newest > 0 {
		sql.add(" ORDER BY name DESC LIMIT ", r.Newest, " OFFSET ", r.Skip)
	}
	results, err := s.query(ctx, doing, sql, 1)
	if err != nil {
		return err
	}
	for _, values := range results[0] {
		f(string(values[0]), values[1])
	}
	return nil
}

// within appends the table and the condition of a range.
func (s *script) within(r rows.Range) *script {
	return s.add(table("side"), " WHERE name >= ", []byte(r.From), " AND name < ", []byte(r.End))
}

// Remove implements [rows.Backend]. It may delete as many rows of each range.
func (s side) Remove(ctx context.Context, doing string, ranges []rows.Range, most int) (removed int, err error) {
	err = s.do(ctx, doing, func(ctx context.Context, c conn) error {
		removed, err = s.place.removeRows(ctx, c, ranges, most)
		return err
	})
	return removed, err
}

// removeRows deletes rows that no transaction has locked.
func (p *Place) removeRows(ctx context.Context, c conn, ranges []rows.Range, most int) (removed int, err error) {
	sql := p.begin()
	for _, r := range ranges {
		sql.add("DELETE FROM ", table("side"), " WHERE name IN (SELECT name FROM ").within(r).
			add(" ORDER BY name LIMIT ", most, " FOR UPDATE SKIP LOCKED) RETURNING 1").end()
	}
	results, err := p.query(ctx, c, sql.add("COMMIT"), len(ranges))
	for _, deleted := range results {
		removed += len(deleted)
	}
	return removed, err
}

var (
	_ rows.Backend      = side{}
	_ storage.Historian = (*Store)(nil)
)
