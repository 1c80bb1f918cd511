package identity

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// MinSecret is how many characters a line of a secret file has at least.
const MinSecret = 32

// maxSecretFile bounds what is read of a secret file.
const maxSecretFile = 64 << 10

// Secret is what keys are hashed under. It may be used from any number of
// goroutines.
type Secret struct {
	macs sync.Pool // of *mac, keyed for names at rest
}

// mac is a keyed hash with room for its sum and for lengths, so that hashing
// allocates nothing.
type mac struct {
	hash.Hash
	room [sha256.Size]byte
}

// NewSecret returns the secret that a text stands for. The text should have at
// least 128 bits of entropy; the same text gives the same secret everywhere.
func NewSecret(text []byte) (*Secret, error) {
	if len(text) < MinSecret {
		return nil, fmt.Errorf("identity: a secret needs at least %d characters, got %d", MinSecret, len(text))
	}
	key, err := hkdf.Key(sha256.New, text, nil, "caddy-tally: keys at rest", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("identity: derive key: %w", err)
	}
	s := new(Secret)
	s.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, key)} }
	return s, nil
}

// Name returns the name at rest of a key within a scope: HMAC-SHA-256 over both,
// each with its length in front, truncated to 128 bits.
func (s *Secret) Name(scope uint64, key string) (name [16]byte) {
	m := s.macs.Get().(*mac)
	m.Reset()
	head := binary.BigEndian.AppendUint64(m.room[:0], scope)
	head = binary.BigEndian.AppendUint64(head, uint64(len(key)))
	m.Write(head)
	for rest := key; len(rest) > 0; { // through room: a conversion would allocate
		n := copy(m.room[:], rest)
		m.Write(m.room[:n])
		rest = rest[n:]
	}
	copy(name[:], m.Sum(m.room[:0]))
	s.macs.Put(m)
	return name
}

// OpenSecret reads the secret in the first line of a file, and makes the file
// and its folder if they do not exist: 64 random hexadecimal digits, mode 0600.
// Of several processes that do so at once, all get the same secret.
func OpenSecret(path string) (*Secret, error) {
	text, err := readSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeSecret(path); err == nil {
			text, err = readSecret(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("identity: secret file: %w", err)
	}
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	secret, err := NewSecret(bytes.TrimSpace(line))
	if err != nil {
		return nil, fmt.Errorf("%w in the first line of %q; remove the file to have one made", err, path)
	}
	return secret, nil
}

func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecretFile {
		return nil, fmt.Errorf("%q is not a file of at most %d bytes", path, maxSecretFile)
	}
	return os.ReadFile(path)
}

// makeSecret writes a secret beside path and then links it there, so that
// nobody ever reads half of one, and whoever comes second finds the first one's.
func makeSecret(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tally-key-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := writeSecret(f); err != nil {
		return err
	}
	err = os.Link(f.Name(), path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return makeSecretInPlace(path) // where files can't have two names
}

// makeSecretInPlace writes a secret where it is to be. Whoever reads half of it
// meanwhile gets an error, and may try again.
func makeSecretInPlace(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return writeSecret(f)
}

func writeSecret(f *os.File) error {
	var random [sha256.Size]byte
	rand.Read(random[:]) // never fails: see crypto/rand
	_, err := f.WriteString(hex.EncodeToString(random[:]) + "\n")
	return errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
}
