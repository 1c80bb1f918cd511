package memory

import (
	"maps"
	"slices"
)

// Clone returns a copy of the counts, records and notes of a database as they are, without the data that is
// known of the past: for tests of what happens when an older copy takes the place of a database.
func (db *Database) Clone() *Database {
	db.mu.Lock()
	defer db.mu.Unlock()
	c := New()
	for i := range db.shards {
		for at := range db.shards[i].states {
			var st state
			db.readLocked(at, &st)
			c.putLocked(at, &st)
		}
		c.shards[i].clients = maps.Clone(db.shards[i].clients)
	}
	c.bytes, c.clock, c.resets, c.next = db.bytes, db.clock, slices.Clone(db.resets), db.next
	c.changes = changes{slices.Clone(db.changes.known), db.changes.newest}
	c.notes = notes{slices.Clone(db.notes.list), maps.Clone(db.notes.numbers), db.notes.newest}
	return c
}
