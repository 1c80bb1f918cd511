// Package keyed is for the packages below identity. It has HMAC-SHA-256 over several parts without allocations,
// and a ring of rotating keys.
package keyed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// Size is the length of a sum in bytes.
const Size = sha256.Size

// MAC makes keyed hashes under one key. It may be used from any number of goroutines.
type MAC struct{ pool sync.Pool }

// New returns a MAC under a key.
func New(key []byte) *MAC {
	m := new(MAC)
	m.pool.New = func() any { return &Message{hash: hmac.New(sha256.New, key), mac: m} }
	return m
}

// Message is the input of a sum: several parts. Each part that is followed by others has a fixed length or is
// preceded by its length, so that different lists of parts are different messages.
type Message struct {
	mac  *MAC
	hash hash.Hash
	n    int // bytes in room that are not yet hashed
	room [192]byte
	sum  [Size]byte
}

// Start begins a message. Sum ends it.
func (m *MAC) Start() *Message {
	msg := m.pool.Get().(*Message)
	msg.hash.Reset()
	msg.n = 0
	return msg
}

// Fixed adds a part with a fixed length, or the last part.
func (m *Message) Fixed(part []byte) *Message {
	for len(part) > 0 { // through room, because part would escape if it was passed to the hash
		n := copy(m.room[m.n:], part)
		m.added(n)
		part = part[n:]
	}
	return m
}

// Number adds a number.
func (m *Message) Number(n uint64) *Message {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return m.Fixed(b[:])
}

// Bytes adds bytes, preceded by their number.
func (m *Message) Bytes(part []byte) *Message {
	return m.Number(uint64(len(part))).Fixed(part)
}

// Text adds a text, preceded by its length in bytes.
func (m *Message) Text(part string) *Message {
	m.Number(uint64(len(part)))
	for len(part) > 0 {
		n := copy(m.room[m.n:], part)
		m.added(n)
		part = part[n:]
	}
	return m
}

func (m *Message) added(n int) {
	if m.n += n; m.n == len(m.room) {
		m.hash.Write(m.room[:])
		m.n = 0
	}
}

// Sum returns the sum of the message, which must not be used after that.
func (m *Message) Sum() [Size]byte {
	m.hash.Write(m.room[:m.n])
	m.hash.Sum(m.sum[:0])
	sum := m.sum
	m.mac.pool.Put(m)
	return sum
}
