package memory

import (
	"encoding/binary"

	"github.com/caddy-tally/caddy-tally/internal/slab"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// stateBytes is what the key of a state takes beside its record: an entry of a map, twice because
// a map that has grown is half empty.
const stateBytes = 2 * 32

func bytesOfState(ref slab.Ref) int64 { return stateBytes + int64(ref.Size()) }

// readLocked reads the state of a key, which is empty if there is none. It uses the slots that st
// has room for.
func (db *Database) readLocked(at stateKey, st *state) (found bool) {
	ref, found := db.shardOf(at.key).states[at]
	*st = state{State: limiter.State{Slots: st.Slots[:0]}}
	if found {
		readRecord(db.counts.Get(ref), st)
	}
	return found
}

// putLocked stores the state of a key, or removes it if it says nothing.
func (db *Database) putLocked(at stateKey, st *state) {
	if st.IsEmpty() {
		db.removeLocked(at)
		return
	}
	sh := db.shardOf(at.key)
	before, found := sh.states[at]
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
		sh.states[at] = ref
	}
}

// removeLocked removes the state of a key, if there is one.
func (db *Database) removeLocked(at stateKey) {
	sh := db.shardOf(at.key)
	ref, found := sh.states[at]
	if !found {
		return
	}
	db.addLocked(sh, -bytesOfState(ref))
	db.counts.Free(ref)
	delete(sh.states, at)
}

// A record of a state is when it expires, in eight bytes, then how many bytes follow, and the state as
// [cells.State.Append] writes it. Most states have one slot, and take 16 bytes.

// appendRecord appends the record of a state.
func (db *Database) appendRecord(b []byte, st *state) []byte {
	db.text = st.Append(db.text[:0])
	b = binary.LittleEndian.AppendUint64(b, uint64(st.Expires))
	b = binary.AppendUvarint(b, uint64(len(db.text)))
	return append(b, db.text...)
}

// readRecord reads a record into a state.
func readRecord(b []byte, st *state) {
	length, n := binary.Uvarint(b[8:])
	st.Parse(b[8+n:][:length])
	st.Expires = expiresOf(b)
}

// expiresOf returns when the state of a record expires.
func expiresOf(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
