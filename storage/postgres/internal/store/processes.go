package store

import (
	"context"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
)

// longestStay bounds for how long a process may join, in nanoseconds. Rows that last longer were written
// while a clock was wrong.
const longestStay = int64(7 * 24 * time.Hour)

// Join implements [storage.Store]. It also keeps the machine's row from expiring.
func (s *Store) Join(ctx context.Context, id, now, until int64) (p storage.Presence, err error) {
	place := s.place
	sql := place.begin()
	sql.add("DELETE FROM ", table("processes"), " WHERE expires <= ", now, " OR expires > ", now+longestStay,
		" OR id = ", id).end()
	sql.add("INSERT INTO ", table("processes"), " (id, expires) VALUES (", id, ", ",
		min(until, now+longestStay), ")").end()
	sql.add("UPDATE ", table("machines"), " SET expires = ", serverClock, " + ", machineStays, " WHERE id = ",
		s.machine.id).end()
	sql.add("SELECT id FROM ", table("processes")).end().add("COMMIT")
	results, err := s.chores.query(ctx, "join", sql, 1)
	if err != nil {
		return p, err
	}
	for _, values := range results[0] {
		var other int64
		if err := numbers(values, &other); err != nil {
			return p, err
		}
		p.Processes++
		if other < id {
			p.Process++
		}
	}
	return p, nil
}

// Leave implements [storage.Store].
func (s *Store) Leave(ctx context.Context, id int64) error {
	_, err := s.chores.query(ctx, "leave",
		s.place.script().add("DELETE FROM ", table("processes"), " WHERE id = ", id), 0)
	return err
}
