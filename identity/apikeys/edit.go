package apikeys

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// Entry is a key in a file, without the key.
type Entry struct {
	Holder
	// ID distinguishes the keys of a name: the first digits of the hash.
	ID string
}

// idLength is the number of digits of an ID.
const idLength = 8

// keyPrefix is the prefix of all keys, so that people and scanners recognize leaked keys.
const keyPrefix = "tally_"

const fileHead = "# API keys: name, tier and hash of each, and until when if it expires. `caddy rate-limit key` makes and revokes them.\n"

// New makes a key of 130 random bits for a client, adds its hash to a file, which it creates if there is none, and
// returns the key. The key is never shown again.
func New(path string, client Holder) (key string, err error) {
	if err := client.check(nil); err != nil {
		return "", fmt.Errorf("apikeys: %w", err)
	}
	key = keyPrefix + rand.Text()
	err = edit(path, func(text []byte) ([]byte, error) {
		if len(bytes.TrimSpace(text)) == 0 {
			var salt sum
			rand.Read(salt[:])
			text = fmt.Appendf(nil, "%s%s %x\n", fileHead, saltWord, salt)
		}
		return appendKey(text, client, key)
	})
	if err != nil {
		return "", fmt.Errorf("apikeys: %w", err)
	}
	return key, nil
}

func appendKey(text []byte, client Holder, key string) ([]byte, error) {
	set, err := Parse(text, nil)
	if err != nil {
		return nil, err
	}
	m := set.macs.Get().(*mac)
	m.Write([]byte(key))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return fmt.Appendln(text, Stored{client, sum(m.Sum(nil))}), nil
}

// Revoke removes the keys of a name from a file, or only the one with the ID if id isn't empty, and returns the number
// of removed keys.
func Revoke(path, name, id string) (revoked int, err error) {
	return editKeys(path, name, id, func([]byte) []byte { return nil })
}

// SetTier changes the tier of the keys of a name in a file, and returns the number of keys. The keys themselves don't
// change.
func SetTier(path, name, tier string) (changed int, err error) {
	if err := CheckTier(tier); err != nil {
		return 0, fmt.Errorf("apikeys: %w", err)
	}
	return editKeys(path, name, "", func(line []byte) []byte {
		fields := strings.Fields(string(line))
		fields[1] = tier
		return []byte(strings.Join(fields, " ") + "\n")
	})
}

// editKeys replaces the lines of the keys of a name in a file, or that of the one with the ID if id isn't empty, and
// returns the number of keys.
func editKeys(path, name, id string, edited func(line []byte) []byte) (keys int, err error) {
	err = edit(path, func(text []byte) (changed []byte, err error) {
		if _, err := Parse(text, nil); err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			if e, ok := entryOf(line); ok && e.Name == name && (id == "" || e.ID == id) {
				keys++
				line = edited(line)
			}
			changed = append(changed, line...)
		}
		if keys == 0 {
			return nil, fmt.Errorf("there is no key of %s", strings.TrimSpace(name+" "+id))
		}
		return changed, nil
	})
	if err != nil {
		return 0, fmt.Errorf("apikeys: %w", err)
	}
	return keys, nil
}

// List returns the keys of a file, in its order.
func List(path string) (entries []Entry, err error) {
	text, _, err := textfile.Read(path, maxFile)
	if err == nil {
		_, err = Parse(text, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("apikeys: %w", err)
	}
	for line := range bytes.Lines(text) {
		if e, ok := entryOf(line); ok {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// entryOf returns the key in a line of a valid file, if there is one.
func entryOf(line []byte) (Entry, bool) {
	fields := strings.Fields(string(line))
	if len(fields) < 3 || strings.HasPrefix(fields[0], "#") || len(fields[2]) < idLength {
		return Entry{}, false
	}
	client, err := clientOf(fields)
	if err != nil {
		return Entry{}, false
	}
	return Entry{*client, strings.ToLower(fields[2][:idLength])}, true
}

// edit replaces the text of a file by the result of change, which must be valid.
func edit(path string, change func([]byte) ([]byte, error)) error {
	return textfile.Edit(path, maxFile, func(text []byte) ([]byte, error) {
		text, err := change(text)
		if err != nil {
			return nil, err
		}
		_, err = Parse(text, nil)
		return text, err
	})
}
