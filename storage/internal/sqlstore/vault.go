package sqlstore

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Values implements [storage.Vault].
func (s *Store) Values(ctx context.Context) (values map[string][]byte, err error) {
	err = s.chore(ctx, "values", func(ctx context.Context, c Conn) error {
		values = make(map[string][]byte)
		results, err := s.place.run(ctx, c, s.place.script().add("SELECT title, value FROM ", table("vault")))
		if err == nil {
			err = hasResults(results, 1)
		}
		if err != nil {
			return err
		}
		for _, row := range results[0] {
			values[string(row[0])] = row[1]
		}
		return nil
	})
	return values, err
}

// AddValue implements [storage.Vault].
func (s *Store) AddValue(ctx context.Context, name string, value []byte) (kept []byte, err error) {
	err = s.chore(ctx, "add value", func(ctx context.Context, c Conn) error {
		id := vaultID(name)
		results, err := s.place.run(ctx, c, s.place.script().
			add("INSERT INTO ", table("vault"), " (name, title, value) VALUES (", id, ", ", []byte(name), ", ", value, ") ", raw(s.place.dialect.Keep("name"))).end().
			add("SELECT value FROM ", table("vault"), " WHERE name = ", id))
		if err == nil {
			err = hasResults(results, 1)
		}
		if err != nil {
			return err
		}
		if len(results[0]) != 1 {
			return errors.New("the value was removed at once")
		}
		kept = results[0][0][0]
		return nil
	})
	return kept, err
}

// RemoveValue implements [storage.Vault].
func (s *Store) RemoveValue(ctx context.Context, name string) error {
	return s.chore(ctx, "remove value", func(ctx context.Context, c Conn) error {
		_, err := s.place.run(ctx, c, s.place.script().add("DELETE FROM ", table("vault"), " WHERE name = ", vaultID(name)))
		return err
	})
}

// vaultID is the key of a value, which fits however long its name is.
func vaultID(name string) []byte {
	hash := sha256.Sum256([]byte(name))
	return hash[:16]
}

var _ storage.Vault = (*Store)(nil)
