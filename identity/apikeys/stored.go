package apikeys

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// Stored is a key in a store: its client, and its hash under a salt that is the same everywhere. A fixed salt suffices,
// because keys are 130 random bits, which can't be guessed with or without a salt.
type Stored struct {
	Holder
	Hash [sha256.Size]byte
}

// storedSalt is the salt of the hashes of stored keys.
const storedSalt = "caddy-tally: API keys in a store"

// NewStored makes a key for a client and returns it with its entry for the store. The key is never shown again.
func NewStored(client Holder) (key string, s Stored, err error) {
	if err := client.check(nil); err != nil {
		return "", s, fmt.Errorf("apikeys: %w", err)
	}
	key, s.Holder = keyPrefix+rand.Text(), client
	m := hmac.New(sha256.New, []byte(storedSalt))
	m.Write([]byte(key))
	m.Sum(s.Hash[:0])
	return key, s, nil
}

// ParseStored parses the line of a stored key, which has the form of a line in a file.
func ParseStored(line string) (s Stored, err error) {
	fields := strings.Fields(line)
	if err := checkWords(fields); err != nil {
		return s, fmt.Errorf("apikeys: %w", err)
	}
	client, err := clientOf(fields)
	if err == nil {
		s.Holder, err = *client, client.check(nil)
	}
	if err == nil {
		s.Hash, err = parseHash(fields[2])
	}
	if err != nil {
		return Stored{}, fmt.Errorf("apikeys: %w", err)
	}
	return s, nil
}

// String returns the line of the key.
func (s Stored) String() string {
	line := fmt.Sprintf("%s %s %x", s.Name, s.Tier, s.Hash)
	if !s.Expires.IsZero() {
		line += " " + untilWord + " " + textfile.FormatTime(s.Expires)
	}
	return line
}

// Entry returns the key for lists.
func (s Stored) Entry() Entry { return Entry{s.Holder, hex.EncodeToString(s.Hash[:])[:idLength]} }

// SetOf returns the set of some stored keys.
func SetOf(keys []Stored) *Set {
	set := newSet([]byte(storedSalt))
	for i := range keys {
		set.clients[keys[i].Hash] = &keys[i].Holder
	}
	return set
}
