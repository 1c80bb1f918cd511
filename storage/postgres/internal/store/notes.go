package store

import (
	"context"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
)

// PutNotes implements [storage.Network]. One call runs at a time, so that machines see numbers in
// ascending order.
func (s *Store) PutNotes(ctx context.Context, notes []storage.Note, replay bool) error {
	if err := storage.CheckNotes(notes); err != nil {
		return s.place.wrap("notes", err)
	}
	if len(notes) == 0 {
		return s.place.wrap("notes", ctx.Err())
	}
	names := make([]string, len(notes))
	for i := range notes {
		names[i] = string(notes[i].Name[:])
	}
	b := &batch{clock: noClock{}, alone: true, reads: []*script{
		s.place.script().add("SELECT COUNT(*), COALESCE(MAX(number), 0) FROM ", table("notes")),
		s.place.script().add("SELECT name, version FROM ", table("notes"), " WHERE name IN ").list(names),
	}}
	versions := make([]int64, len(notes))
	b.decide = func(tx *transaction) error { return tx.putNotes(notes, versions, replay) }
	if err := s.batches.transact(ctx, "notes", b); err != nil {
		return err
	}
	for i := range notes {
		notes[i].Version = versions[i]
	}
	return nil
}

// putNotes changes notes, and returns the resulting version of each in versions.
func (tx *transaction) putNotes(notes []storage.Note, versions []int64, replay bool) error {
	var count, number int64
	if err := first(tx.read[:1], &count, &number); err != nil {
		return err
	}
	known := make(map[storage.Key]int64) // versions
	for _, values := range tx.read[1] {
		var name storage.Key
		var version int64
		if err := numbers(values[1:], &version); err != nil {
			return err
		}
		copy(name[:], values[0])
		known[name] = version
	}
	before := int64(len(known))
	changed := make(map[storage.Key]int) // the index of each note's last change
	for i, n := range notes {
		last := known[n.Name]
		if !replay {
			n.Version = max(n.Version, last+1)
		}
		if n.Version > last {
			changed[n.Name] = i
		}
		known[n.Name] = max(n.Version, last)
		versions[i] = known[n.Name]
	}
	if count+int64(len(known))-before > tx.more.place.options.MaxNotes {
		return storage.ErrNotesFull
	}
	tx.writeNotes(notes, versions, changed, max(number+1, tx.meta.server))
	return nil
}

// writeNotes writes the changed notes, with numbers that begin with number.
func (tx *transaction) writeNotes(notes []storage.Note, versions []int64, changed map[storage.Key]int, number int64) {
	if len(changed) == 0 {
		return
	}
	var names []string
	rows := tx.more.place.script()
	for i := range notes {
		n := &notes[i]
		if last, ok := changed[n.Name]; !ok || last != i {
			continue
		}
		if len(names) > 0 {
			rows.add(", ")
		}
		rows.add("(", number, ", ", n.Name[:], ", ", versions[i], ", ", n.Until, ", ", n.Value, ")")
		names = append(names, string(n.Name[:]))
		number++
	}
	tx.more.add("DELETE FROM ", table("notes"), " WHERE name IN ").list(names).end()
	tx.more.add("INSERT INTO ", table("notes"), " (number, name, version, expires, value) VALUES ", raw(rows.sql)).end()
}

// selectNotes reads the first notes that were changed after a number, and one more.
func (s *script) selectNotes(after int64) *script {
	return s.add("SELECT number, version, expires, name, value FROM ", table("notes"), " WHERE number > ",
		changesAfter(after),
		" ORDER BY number LIMIT ", storage.MaxNotesTold+1)
}

// readNotes returns the notes in an answer, and whether there are more.
func readNotes(rows result) (notes []storage.Note, more bool, err error) {
	for i, values := range rows {
		if i == storage.MaxNotesTold {
			return notes, true, nil
		}
		var n storage.Note
		if err := numbers(values, &n.Number, &n.Version, &n.Until); err != nil {
			return nil, false, err
		}
		if len(values) != 5 || len(values[3]) != len(n.Name) {
			return nil, false, fmt.Errorf("note %d can't be read", n.Number)
		}
		copy(n.Name[:], values[3])
		n.Value = values[4]
		notes = append(notes, n)
	}
	return notes, false, nil
}

// dropNotes removes obsolete notes. If there are very many, the next sweep continues.
func (p *Place) dropNotes(ctx context.Context, c conn, now int64) error {
	over := now - int64(storage.KeepNotes)
	results, err := p.query(ctx, c,
		p.script().add("SELECT number FROM ", table("notes"), " WHERE expires > 0 AND expires <= ", over,
			" ORDER BY number LIMIT ", sweepRows), 1)
	if err != nil || len(results[0]) == 0 {
		return err
	}
	sql := p.script().add("DELETE FROM ", table("notes"), " WHERE number IN (")
	sql.joined(len(results[0]), func(i int) { sql.add(raw(results[0][i][0])) })
	_, err = p.run(ctx, c, sql.add(")")) // a note that was changed meanwhile has another number
	return err
}
