// Package keyed is shared by the packages below identity: HMAC-SHA-256 over
// several parts without allocations, and a ring of keys that rotate.
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

// MAC makes keyed hashes under one key. It may be used from any number of
// goroutines.
type MAC struct{ pool sync.Pool }

// New returns a MAC under a key.
func New(key []byte) *MAC {
	m := new(MAC)
	m.pool.New = func() any { return &Message{hash: hmac.New(sha256.New, key), of: m} }
	return m
}

// Message is the input of a sum: parts one after the other. A part that
// others follow has either a fixed length or its length in front, so that no two
// lists of parts are one message.
type Message struct {
	of   *MAC
	hash hash.Hash
	n    int // bytes in room that are not yet hashed
	room [192]byte
	sum  [Size]byte
}

// Start begins a message. It ends with Sum.
func (m *MAC) Start() *Message {
	msg := m.pool.Get().(*Message)
	msg.hash.Reset()
	msg.n = 0
	return msg
}

// Fixed adds bytes whose number is always the same, or that come last.
func (m *Message) Fixed(part []byte) *Message {
	for len(part) > 0 { // through room: handed to the hash itself, part would escape
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

// Bytes adds bytes with their number in front.
func (m *Message) Bytes(part []byte) *Message {
	return m.Number(uint64(len(part))).Fixed(part)
}

// Text adds a text with its length in bytes in front.
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

// Sum returns the sum over the message, which must not be used any more.
func (m *Message) Sum() [Size]byte {
	m.hash.Write(m.room[:m.n])
	m.hash.Sum(m.sum[:0])
	sum := m.sum
	m.of.pool.Put(m)
	return sum
}
