package store

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Reset implements [storage.Store]. One reset runs at a time. It waits for batches that have locked the
// rows. Batches that lock them later read the number of the reset. A batch that inserts a missing row
// meanwhile counts as later: there is nothing to which it could give units back.
func (s *Store) Reset(ctx context.Context, term *storage.Term, resets []storage.Reset) error {
	b := &batch{alone: true, locks: locksOfResets(resets)}
	if len(resets) > 0 {
		noted := s.place.script().add("SELECT id, number, at, found FROM ", table("resets"), " WHERE id IN (")
		noted.joined(len(resets), func(i int) { noted.add(resets[i].ID) })
		b.reads = []*script{noted.add(")")}
	}
	var newest int64
	b.decide = func(tx *transaction) (err error) {
		newest, err = tx.reset(resets)
		return err
	}
	err := s.batches.inTerm(ctx, "reset", term, b)
	if err == nil {
		term.Time.Resets = newest
	}
	return err
}

// rowsOf returns the table and the names of the rows that a reset forgets.
func rowsOf(r *storage.Reset) (t table, names []string) {
	keys := []storage.Key{r.Key}
	if r.Former != (storage.Key{}) {
		keys = append(keys, r.Former)
	}
	for _, key := range keys {
		if r.Client {
			names = append(names, string(key[:]))
		} else {
			names = append(names, cellName(r.Limit, key))
		}
	}
	if r.Client {
		return "clients", names
	}
	return "cells", names
}

func locksOfResets(resets []storage.Reset) []lock {
	names := make(map[table][]string)
	for i := range resets {
		t, rows := rowsOf(&resets[i])
		names[t] = append(names[t], rows...)
	}
	return append(locksOn("cells", names["cells"]), locksOn("clients", names["clients"])...)
}

// reset performs and notes the resets that are not noted already. It returns the number of the newest.
func (tx *transaction) reset(resets []storage.Reset) (newest int64, err error) {
	newest = tx.meta.resets
	if len(resets) == 0 {
		return newest, nil
	}
	noted := make(map[int64]storage.Reset)
	for _, values := range tx.read[0] {
		var r storage.Reset
		var found int64
		if err := numbers(values, &r.ID, &r.Number, &r.At, &found); err != nil {
			return 0, err
		}
		r.Found = found != 0
		noted[r.ID] = r
	}
	first := newest + 1
	for i := range resets {
		r := &resets[i]
		if was, ok := noted[r.ID]; ok {
			r.Number, r.At, r.Found = was.Number, was.At, was.Found
			continue
		}
		newest++
		r.Number, r.At, r.Found = newest, tx.at.Now-tx.at.Shift, false
		t, names := rowsOf(r)
		for _, name := range names {
			forgotten := tx.rows[t][name]
			r.Found = r.Found || len(forgotten.state) > 0
			forgotten.state = nil
		}
		noted[r.ID] = *r
		tx.more.note(r, r.Number == first)
	}
	if newest >= first {
		tx.more.end().add("UPDATE ", table("meta"), " SET resets = ", newest, " WHERE id = 1").end()
		tx.more.add("DELETE FROM ", table("resets"), " WHERE number <= ", newest-storage.MaxResets).end()
	}
	return newest, nil
}

// note appends a reset to an INSERT, which it begins if first is true.
func (s *script) note(r *storage.Reset, first bool) {
	if first {
		s.add("INSERT INTO ", table("resets"), " (number, id, client, counter, name, former, at, found) VALUES ")
	} else {
		s.add(", ")
	}
	s.add("(", r.Number, ", ", r.ID, ", ", boolean(r.Client), ", ", int64(r.Limit), ", ", r.Key[:], ", ", r.Former[:],
		", ", r.At, ", ", boolean(r.Found), ")")
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Resets implements [storage.Store].
func (s *Store) Resets(ctx context.Context, after int64) (storage.Resets, error) {
	news, err := s.News(ctx, storage.Seen{Resets: after, Changes: -1, Notes: -1})
	return news.Resets, err
}

func (s *script) selectResets(after int64) *script {
	return s.add("SELECT number, id, client, counter, at, found, name, former FROM ", table("resets"),
		" WHERE number > ", after, " ORDER BY number")
}

// readResets reads the resets after a number, up to the newest. Later rows were inserted meanwhile.
func readResets(known *storage.Resets, after int64, rows result) error {
	for _, values := range rows {
		r, err := resetOf(values)
		if err != nil {
			return err
		}
		if r.Number <= known.Newest {
			known.List = append(known.List, r)
		}
	}
	known.Lost = int64(len(known.List)) != known.Newest-after
	return nil
}

func resetOf(values [][]byte) (r storage.Reset, err error) {
	var client, limit, found int64
	if err := numbers(values, &r.Number, &r.ID, &client, &limit, &r.At, &found); err != nil {
		return r, err
	}
	r.Client, r.Limit, r.Found = client != 0, storage.LimitID(limit), found != 0
	copy(r.Key[:], values[6])
	copy(r.Former[:], values[7])
	return r, nil
}
