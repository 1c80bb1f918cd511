package memory

import (
	"encoding/binary"

	"github.com/caddy-tally/caddy-tally/internal/slab"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// stateBytes is the size of a state's map entry, twice because a map that has grown is half empty.
const stateBytes = 2 * 32

func bytesOfState(ref slab.Ref) int64 { return stateBytes + int64(ref.Size()) }

// readLocked reads the state of a key into st, whose slots it reuses. The state is empty if there is none.
func (db *Database) readLocked(owner stateKey, st *state) (found bool) {
	ref, found := db.shardOf(owner.key).states[owner]
	*st = state{State: limiter.State{Slots: st.Slots[:0]}}
	if found {
		readRecord(db.counts.Get(ref), st)
	}
	return found
}

// putLocked stores the state of a key, or removes it if it is empty.
func (db *Database) putLocked(owner stateKey, st *state) {
	if st.IsEmpty() {
		db.removeLocked(owner)
		return
	}
	sh := db.shardOf(owner.key)
	before, found := sh.states[owner]
	db.room = db.appendRecord(db.room[:0], st)
	ref := db.counts.Put(before, db.room)
	if found {
		db.addLocked(sh, -bytesOfState(before))
	}
	db.addLocked(sh, bytesOfState(ref))
	if sh.states == nil {
		sh.states = make(map[stateKey]slab.Ref)
	}
	if ref != before {
		sh.states[owner] = ref
	}
}

// removeLocked removes the state of a key, if there is one.
func (db *Database) removeLocked(owner stateKey) {
	sh := db.shardOf(owner.key)
	ref, found := sh.states[owner]
	if !found {
		return
	}
	db.addLocked(sh, -bytesOfState(ref))
	db.counts.Free(ref)
	delete(sh.states, owner)
}

// A record has the expiry of a state, in eight bytes, the number of bytes that follow, and the encoding of
// [cells.State.Append]. Most states have one slot, and take 16 bytes.

// appendRecord appends the record of a state.
func (db *Database) appendRecord(b []byte, st *state) []byte {
	db.text = st.Append(db.text[:0])
	b = binary.LittleEndian.AppendUint64(b, uint64(st.Expires))
	b = binary.AppendUvarint(b, uint64(len(db.text)))
	return append(b, db.text...)
}

// readRecord decodes a record into a state.
func readRecord(b []byte, st *state) {
	length, n := binary.Uvarint(b[8:])
	st.Parse(b[8+n:][:length])
	st.Expires = expiresOf(b)
}

// expiresOf returns the expiry in a record.
func expiresOf(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
