package store

import (
	"context"
	"crypto/sha256"
)

// Values implements [storage.Network].
func (s *Store) Values(ctx context.Context) (map[string][]byte, error) {
	results, err := s.chores.query(ctx, "values", s.place.script().add("SELECT title, value FROM ", table("vault")), 1)
	if err != nil {
		return nil, err
	}
	values := make(map[string][]byte)
	for _, row := range results[0] {
		values[string(row[0])] = row[1]
	}
	return values, nil
}

// SwapValue implements [storage.Network].
func (s *Store) SwapValue(ctx context.Context, name string, former, value []byte) (kept []byte, err error) {
	results, err := s.chores.query(ctx, "swap value", s.place.swapValue(name, former, value).
		end().add("SELECT value FROM ", table("vault"), " WHERE name = ", vaultID(name)), 1)
	if err == nil && len(results[0]) == 1 {
		kept = results[0][0][0]
	}
	return kept, err
}

// swapValue returns the statement that adds, replaces or removes a value.
func (p *Place) swapValue(name string, former, value []byte) *script {
	s, id := p.script(), vaultID(name)
	switch {
	case len(former) == 0:
		return s.add("INSERT INTO ", table("vault"), " (name, title, value) VALUES (", id, ", ", []byte(name), ", ",
			value, ") ", orKeep)
	case len(value) == 0:
		return s.add("DELETE FROM ", table("vault"), " WHERE name = ", id, " AND value = ", former)
	}
	return s.add("UPDATE ", table("vault"), " SET value = ", value, " WHERE name = ", id, " AND value = ", former)
}

// vaultID returns the key of a value, which has a fixed length.
func vaultID(name string) []byte {
	hash := sha256.Sum256([]byte(name))
	return hash[:16]
}
