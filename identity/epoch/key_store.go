package epoch

import (
	"bytes"
	"io/fs"
	"sync"
	"time"
)

// keyStore stores keys by the names of their files in a folder.
type keyStore interface {
	// read returns a key, or an error that wraps [fs.ErrNotExist].
	read(name string) ([]byte, error)
	// add stores a key unless there is one with its name, and returns the stored one.
	add(name string, key []byte) ([]byte, error)
	// sweep destroys the keys whose epochs are over.
	sweep(now time.Time) error
}

// memory stores keys for the life of the process.
type memory struct {
	mu   sync.Mutex
	keys map[string][]byte // guarded by mu: by name
}

func (m *memory) read(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if key := m.keys[name]; key != nil {
		return bytes.Clone(key), nil
	}
	return nil, fs.ErrNotExist
}

func (m *memory) add(name string, key []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys[name] == nil {
		m.keys[name] = bytes.Clone(key)
	}
	return bytes.Clone(m.keys[name]), nil
}

func (m *memory) sweep(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, key := range m.keys {
		if over(name, now) {
			clear(key)
			delete(m.keys, name)
		}
	}
	return nil
}
