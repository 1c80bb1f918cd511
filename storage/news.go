package storage

import "context"

// Watcher is a store that reports changes by other processes, so that each process that has a
// record in memory reads it again. One call also tells of resets, and shows that the store is
// there: engines make it every 0.75 seconds, so it should take one round trip and read little.
type Watcher interface {
	Resetter

	// News returns the changes since those that the caller has seen. It is called by another
	// goroutine than claims are, while these are under way: none of them may wait for it, or a
	// request would wait for three round trips. It waits for what other processes write no longer
	// than [Resetter.Resets] does. It returns [ErrLostWrites] if the store has lost writes that this
	// process was told of.
	News(ctx context.Context, seen Seen) (News, error)
}

// Seen is the last change that a caller knows.
type Seen struct {
	// Resets is the number of the last reset that it knows.
	Resets int64
	// Changes is the number of the last change that it knows, or negative if it knows of none:
	// then it learns the number of the newest, and no changes.
	Changes int64
	// Notes is the number of the last change of a note that it knows, or negative if it doesn't
	// want to know of notes. After 0 it is told of all.
	Notes int64
}

// News has the changes of a store.
type News struct {
	Resets Resets
	// Changed are the clients whose records [Store.Punish] has changed, by the names that it
	// was called with, in the order of the changes. A client may come more than once. At most
	// MaxChanges are known: if there were more, these are the last, and Missed is true.
	Changed []Client
	// Newest is the number of the newest change: they are counted from 1, without gaps, one for
	// each offense. 0 if there was none.
	Newest int64
	// Missed reports whether Changed isn't complete. A caller that has missed some learns of
	// them when it reads the records again.
	Missed bool
	// Notes are the notes of a [Notebook] that were changed, each as it is now, in the order of
	// their numbers, and MoreNotes reports whether there are more after them.
	Notes     []Note
	MoreNotes bool
	// Processes is how many processes use the store, as [Shared.Join] counts them; 0 if the store
	// doesn't know. A process that knows another number joins again.
	Processes int
}

// MaxChanges is how many changes of records a store tells of.
const MaxChanges = 4096
