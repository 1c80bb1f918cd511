package store

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"

	"github.com/caddy-tally/caddy-tally/storage"
)

// names are the names of keys on the server. All begin with the prefix.
type names string

func (n names) meta() string      { return string(n) + ":meta" }
func (n names) changes() string   { return string(n) + ":changes" }
func (n names) resets() string    { return string(n) + ":resets" }
func (n names) resetIDs() string  { return string(n) + ":resetids" }
func (n names) processes() string { return string(n) + ":processes" }
func (n names) values() string    { return string(n) + ":values" }

func (n names) notes() string       { return string(n) + ":notes" }
func (n names) noteNumbers() string { return string(n) + ":notenumbers" }
func (n names) noteEnds() string    { return string(n) + ":noteends" }

func (n names) acts(log storage.Log) string {
	return string(n) + [storage.Logs]string{storage.Audit: ":acts", storage.Charges: ":charges"}[log]
}

func (n names) machine(id string) string { return string(n) + ":m:" + id }

func (n names) count(id storage.LimitID, key storage.Key) string {
	var b [8 + len(key)]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	copy(b[8:], key[:])
	var room [96]byte
	return string(base64.RawURLEncoding.AppendEncode(append(append(room[:0], n...), ":c:"...), b[:]))
}

func (n names) records() string { return string(n) + ":s:" } // the prefix of all records

func (n names) record(key storage.Key) string {
	return n.records() + base64.RawURLEncoding.EncodeToString(key[:])
}

// randomID returns a new unique id.
func randomID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	return hex.EncodeToString(b[:])
}
