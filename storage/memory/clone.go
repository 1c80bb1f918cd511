package memory

import (
	"maps"
	"slices"
)

// Clone returns a copy of the counts, records and resets of a database, without the history, for tests
// in which an older copy replaces a database.
func (db *Database) Clone() *Database {
	db.mu.Lock()
	defer db.mu.Unlock()
	c := New()
	for i := range db.shards {
		for owner := range db.shards[i].states {
			var st state
			db.readLocked(owner, &st)
			c.putLocked(owner, &st)
		}
		c.shards[i].clients = maps.Clone(db.shards[i].clients)
	}
	c.bytes, c.clock, c.resets, c.next = db.bytes, db.clock, slices.Clone(db.resets), db.next
	return c
}
