package storage

// Seen has the numbers of the last changes that a caller knows.
type Seen struct {
	// Resets is the number of the last known reset.
	Resets int64
	// Changes is the number of the last known change of a record. A negative one asks for the number
	// of the newest change, and no changes.
	Changes int64
	// Notes is the number of the last known change of a note; 0 asks for all notes, and a negative
	// number for none.
	Notes int64
}

// News has the changes of a store, see [Network.News].
type News struct {
	Resets Resets
	// Changed are the clients whose records [Store.Punish] has changed, by the names that it
	// was called with, in the order of the changes. A client may come more than once. If there
	// were more than MaxChanges changes, these are the last ones, and Missed is true.
	Changed []Client
	// Newest is the number of the newest change, 0 if there was none. Changes are counted from 1,
	// without gaps, one for each offense.
	Newest int64
	// Missed reports whether Changed is incomplete. The caller learns of the missed changes when it
	// reads the records again.
	Missed bool
	// Notes are the changed notes in their present form, in the order of their numbers. MoreNotes
	// reports whether there are more after them.
	Notes     []Note
	MoreNotes bool
	// Processes is the number of processes as [Store.Join] counts them, 0 if unknown. A process that
	// knows another number joins again.
	Processes int
}

// MaxChanges is how many changes of records a store knows.
const MaxChanges = 4096
