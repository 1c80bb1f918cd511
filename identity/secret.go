package identity

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/caddy-tally/caddy-tally/identity/internal/keyfile"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// MinSecret is how many characters a line of a secret file has at least, and
// MaxSecrets how many lines there are at most.
const (
	MinSecret  = 32
	MaxSecrets = 16
)

// maxSecretFile bounds the part of a secret file that is read.
const maxSecretFile = 64 << 10

// Secret is the source of all keys of a process, also of those that names are
// hashed under. It may be used from any number of goroutines.
type Secret struct {
	Hasher          // under the text in use
	keys   [][]byte // of hashers, the one in use first
	texts  [][]byte // the one in use first
}

// NewSecret returns the secret that a text stands for. The text should have at
// least 128 bits of entropy; the same text gives the same secret everywhere.
// Older texts only verify older signatures.
func NewSecret(text []byte, older ...[]byte) (*Secret, error) {
	s := &Secret{texts: append([][]byte{text}, older...)}
	if len(s.texts) > MaxSecrets {
		return nil, fmt.Errorf("identity: got %d secrets, expected at most %d", len(s.texts), MaxSecrets)
	}
	for i, text := range s.texts {
		if len(text) < MinSecret {
			return nil, fmt.Errorf("identity: secret number %d has %d characters, expected at least %d", i+1, len(text), MinSecret)
		}
		s.texts[i] = bytes.Clone(text)
	}
	keys, err := s.Derive("keys at rest")
	if err != nil {
		return nil, err
	}
	s.keys, s.Hasher = keys, NewHasher(keys[0])
	return s, nil
}

// Keys returns the keys of hashers, one derived from each text. The first is that of the secret's own.
// They must not be changed.
func (s *Secret) Keys() [][]byte { return slices.Clone(s.keys) }

// Equal reports whether two secrets have the same texts in the same order.
func (s *Secret) Equal(other *Secret) bool {
	return slices.EqualFunc(s.texts, other.texts, bytes.Equal)
}

// Derive returns a key of 32 bytes from each text, for one purpose: keys for
// different purposes tell nothing about each other. The first is the one in use,
// the others only verify.
func (s *Secret) Derive(purpose string) ([][]byte, error) {
	keys := make([][]byte, len(s.texts))
	for i, text := range s.texts {
		var err error
		if keys[i], err = derive(text, purpose); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func derive(text []byte, purpose string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, text, nil, "caddy-tally: "+purpose, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("identity: derive key: %w", err)
	}
	return key, nil
}

// RandomSecret returns a new random secret that is in no file.
func RandomSecret() *Secret {
	s, err := NewSecret(randomText())
	if err != nil {
		panic(err) // not reached: its text is long enough
	}
	return s
}

// OpenSecret reads the secrets in the lines of a file, the one in use first, and
// makes the file and its folder if they do not exist: 64 random hexadecimal
// digits, mode 0600. Of several processes that do so at once, all get the same
// secret. Empty lines after the first are skipped.
func OpenSecret(path string) (*Secret, error) {
	secret, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := keyfile.Make(path, randomText()); err != nil {
			return nil, fmt.Errorf("identity: secret file: %w", err)
		}
		return ReadSecret(path)
	}
	return secret, err
}

// ReadSecret is [OpenSecret] for a file that must exist.
func ReadSecret(path string) (*Secret, error) {
	text, _, err := textfile.Read(path, maxSecretFile)
	if err != nil {
		return nil, fmt.Errorf("identity: secret file: %w", err)
	}
	lines := secretLines(text)
	secret, err := NewSecret(lines[0], lines[1:]...)
	if err != nil {
		return nil, fmt.Errorf("%w in %q; each line is a secret, and Caddy makes the file if there is none", err, path)
	}
	return secret, nil
}

// Keep makes a secret's file again if it is not there any more.
func (s *Secret) Keep(path string) error {
	if err := keyfile.Keep(path, append(bytes.Join(s.texts, []byte{'\n'}), '\n')); err != nil {
		return fmt.Errorf("identity: secret file: %w", err)
	}
	return nil
}

// secretLines returns the first line, and later lines that are not empty.
func secretLines(text []byte) [][]byte {
	first, rest, _ := bytes.Cut(text, []byte{'\n'})
	lines := [][]byte{bytes.TrimSpace(first)}
	for line := range bytes.Lines(rest) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// randomText returns the content of a new secret file.
func randomText() []byte {
	var random [sha256.Size]byte
	rand.Read(random[:]) // never fails: see crypto/rand
	return append(hex.AppendEncode(nil, random[:]), '\n')
}
