package reference

import (
	"encoding/binary"
	"time"
)

// The offsets of the fields of a token.
const (
	scopeAt   = ivSize
	timeAt    = scopeAt + 4
	reasonAt  = timeAt + 4
	nameAt    = reasonAt + 4
	tokenSize = nameAt + NameSize
)

const ivSize = 12

// NameSize is the length of a key's name at rest in bytes.
const NameSize = 16

// MaxReason is the highest reason.
const MaxReason = 1<<reasonBits - 1

const (
	reasonBits = 4
	nonceBits  = 32 - reasonBits
)

// Refusal is the content of a reference.
type Refusal struct {
	// Scope is the lower half of the scope of Name: see
	// [github.com/caddy-tally/caddy-tally/identity.Hasher].
	Scope uint32
	// Reason is defined by the caller, from 0 to MaxReason.
	Reason uint8
	// Time is in whole seconds, from 1970 until 2106.
	Time time.Time
	// Name is the name at rest of the refused key; zero if there was none.
	Name [NameSize]byte
}

type token [tokenSize]byte

// write encodes a refusal, with 28 bits of a nonce.
func (t *token) write(r Refusal, nonce uint32) {
	binary.BigEndian.PutUint32(t[scopeAt:], r.Scope)
	binary.BigEndian.PutUint32(t[timeAt:], uint32(r.Time.Unix()))
	binary.BigEndian.PutUint32(t[reasonAt:], uint32(r.Reason)<<nonceBits|nonce&(1<<nonceBits-1))
	copy(t[nameAt:], r.Name[:])
}

// refusal decodes the refusal in the token.
func (t *token) refusal() Refusal {
	return Refusal{
		Scope:  binary.BigEndian.Uint32(t[scopeAt:]),
		Time:   time.Unix(int64(binary.BigEndian.Uint32(t[timeAt:])), 0),
		Reason: uint8(binary.BigEndian.Uint32(t[reasonAt:]) >> nonceBits),
		Name:   [NameSize]byte(t[nameAt:]),
	}
}
