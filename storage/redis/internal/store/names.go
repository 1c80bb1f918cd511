package store

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/caddy-tally/caddy-tally/storage"
)

// names are the names of keys on the server. All begin with the prefix.
type names string

func (p names) meta() string      { return string(p) + ":meta" }
func (p names) changes() string   { return string(p) + ":changes" }
func (p names) resets() string    { return string(p) + ":resets" }
func (p names) resetIDs() string  { return string(p) + ":resetids" }
func (p names) processes() string { return string(p) + ":processes" }
func (p names) acts() string      { return string(p) + ":acts" }
func (p names) values() string    { return string(p) + ":values" }

func (p names) notes() string       { return string(p) + ":notes" }
func (p names) noteNumbers() string { return string(p) + ":notenumbers" }
func (p names) noteEnds() string    { return string(p) + ":noteends" }

func (p names) machine(id string) string { return string(p) + ":m:" + id }

func (p names) count(id storage.LimitID, key storage.Key) string {
	var b [8 + len(key)]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	copy(b[8:], key[:])
	var room [96]byte
	return string(base64.RawURLEncoding.AppendEncode(append(append(room[:0], p...), ":c:"...), b[:]))
}

func (p names) records() string { return string(p) + ":s:" } // the beginning of each record's

func (p names) record(key storage.Key) string {
	return p.records() + base64.RawURLEncoding.EncodeToString(key[:])
}

func (p names) isCount(key string) bool  { return strings.HasPrefix(key, string(p)+":c:") }
func (p names) isRecord(key string) bool { return strings.HasPrefix(key, p.records()) }

// randomID returns a new unique id.
func randomID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	return hex.EncodeToString(b[:])
}
