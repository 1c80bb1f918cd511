package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/caddy-tally/caddy-tally/storage"
)

// notes are the notes of machines for one another.
type notes struct {
	list    []storage.Note        // in the order of their numbers
	numbers map[storage.Key]int64 // by name
	newest  int64                 // the number of the last change
}

// PutNotes implements [storage.Notebook].
func (s *Store) PutNotes(ctx context.Context, notes []storage.Note, replay bool) error {
	return s.with(ctx, "notes", func(db *Database) error {
		if err := storage.CheckNotes(notes); err != nil {
			return err
		}
		return db.notes.put(notes, replay)
	})
}

func (n *notes) put(notes []storage.Note, replay bool) error {
	added := make(map[storage.Key]bool)
	for i := range notes {
		if n.numbers[notes[i].Name] == 0 {
			added[notes[i].Name] = true
		}
	}
	if len(n.list)+len(added) > storage.MaxNotes {
		return storage.ErrNotesFull
	}
	for i := range notes {
		n.putOne(&notes[i], replay)
	}
	return nil
}

func (n *notes) putOne(note *storage.Note, replay bool) {
	number, last := n.numbers[note.Name], int64(0)
	at := n.after(number - 1)
	if number != 0 {
		last = n.list[at].Version
	}
	if !replay {
		note.Version = max(note.Version, last+1)
	}
	if note.Version <= last {
		note.Version = last
		return
	}
	if number != 0 {
		n.list = slices.Delete(n.list, at, at+1)
	}
	if n.numbers == nil {
		n.numbers = make(map[storage.Key]int64)
	}
	n.newest++
	n.numbers[note.Name] = n.newest
	kept := *note
	kept.Number, kept.Value = n.newest, bytes.Clone(note.Value)
	n.list = append(n.list, kept)
}

// after returns where the first note is that was changed after a number.
func (n *notes) after(number int64) int {
	at, _ := slices.BinarySearchFunc(n.list, number+1, func(note storage.Note, number int64) int { return cmp.Compare(note.Number, number) })
	return at
}

// tell returns the first notes that were changed after a number, and whether there are more.
func (n *notes) tell(number int64) (told []storage.Note, more bool) {
	if number < 0 {
		return nil, false
	}
	left := n.list[n.after(number):]
	return slices.Clone(left[:min(len(left), storage.MaxNotesTold)]), len(left) > storage.MaxNotesTold
}

// sweep removes obsolete notes.
func (n *notes) sweep(now int64) {
	n.list = slices.DeleteFunc(n.list, func(note storage.Note) bool {
		over := note.IsOver(now - int64(storage.KeepNotes))
		if over {
			delete(n.numbers, note.Name)
		}
		return over
	})
}

var _ storage.Notebook = (*Store)(nil)
