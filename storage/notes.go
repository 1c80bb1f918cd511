package storage

import (
	"errors"
	"fmt"
	"time"
)

// Note is a small value that machines share, such as an operator's rule, or the fact that it was
// removed. Machines put notes with [Network.PutNotes], and receive them with the [News].
//
// # Invariants
//
//   - Of two changes of one note the one with the higher version stays, whichever comes first. So
//     machines can replay the notes they know to a store that has lost its data, and a note that
//     was removed meanwhile stays removed (decision 105).
//   - Machines see the numbers of changes in ascending order: one that has seen a number has missed
//     no change before it.
type Note struct {
	Name Key
	// Value is at most MaxNote bytes; it is empty if the note was removed. The caller seals it, so
	// that readers of the store learn nothing from it.
	Value []byte
	// Until is the end of the note's use, in nanoseconds since the Unix epoch; 0 is never. A sweep
	// removes the note KeepNotes later.
	Until int64
	// Version orders the changes of one note. It is at least 1. Callers derive it from the time, in
	// microseconds since the Unix epoch.
	Version int64
	// Number orders the changes of all notes. The store sets it.
	Number int64
}

// IsOver reports whether the note's use has ended at a time.
func (n *Note) IsOver(now int64) bool { return n.Until != 0 && n.Until <= now }

// Bounds of notes.
const (
	MaxNotes     = 100_000   // in a store, including removed ones
	MaxNote      = 9 << 10   // bytes of a value
	MaxNotesTold = 500       // in one News
	KeepNotes    = time.Hour // after their end
)

// ErrNotesFull says that there are MaxNotes already. Nothing has changed.
var ErrNotesFull = errors.New("the store is full of notes")

// CheckNotes returns an error if notes are too long or have impossible versions.
func CheckNotes(notes []Note) error {
	for i := range notes {
		switch n := &notes[i]; {
		case len(n.Value) > MaxNote:
			return fmt.Errorf("note %d has %d bytes, expected at most %d", i, len(n.Value), MaxNote)
		case n.Version < 1 || n.Version >= 1<<53:
			return fmt.Errorf("note %d has version %d, expected at least 1 and less than 2^53", i, n.Version)
		}
	}
	return nil
}
