package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Notebook is a store that keeps small notes for all machines that use it, such as operators'
// rules. Machines learn of new ones by the [News].
//
// The caller seals the text of a note, so that readers of the store learn nothing from it.
//
// # Invariants
//
//   - Of two changes of one note the one with the higher version stays, in whichever order the
//     store hears of them. So machines can tell a store that has lost its data what they know, and
//     a note that was removed meanwhile stays removed.
//   - The numbers of changes go up in the order in which machines see them: one that has seen a
//     number has missed no change before it.
type Notebook interface {
	Watcher
	// PutNotes changes notes, all in one transaction or none, and sets the version of each to the
	// one that the store has afterwards. Without replay each change takes effect: the store raises
	// its version above the one that it has. With replay a change takes effect only if its version
	// is higher.
	//
	// Its errors are those of Claim, and [ErrNotesFull]. After [ErrUnknownOutcome] the same notes
	// can be put again.
	PutNotes(ctx context.Context, notes []Note, replay bool) error
}

// Note is a note, or that it was removed.
type Note struct {
	Name Key
	// Value is the content of the note, at most MaxNote bytes. It is empty if the note was removed.
	Value []byte
	// Until is the end of the note's use, in nanoseconds since the Unix epoch; 0 is
	// never. KeepNotes later a sweep removes it.
	Until int64
	// Version orders the changes of one note. It is at least 1. Callers make it of the time, in
	// microseconds since the Unix epoch.
	Version int64
	// Number is set by the store: it orders the changes of all notes.
	Number int64
}

// IsOver reports whether the note's use has ended at a time.
func (n *Note) IsOver(now int64) bool { return n.Until != 0 && n.Until <= now }

// Bounds of notes.
const (
	MaxNotes     = 100_000   // that a store keeps, removed ones included
	MaxNote      = 9 << 10   // bytes of a value
	MaxNotesTold = 500       // that a store tells of at once
	KeepNotes    = time.Hour // after their end
)

// ErrNotesFull says that there are MaxNotes already. Nothing has changed.
var ErrNotesFull = errors.New("the store is full of notes")

// CheckNotes returns an error if a store can't keep some notes.
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
