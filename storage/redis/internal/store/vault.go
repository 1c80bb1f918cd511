package store

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Values implements [storage.Vault].
func (s *Store) Values(ctx context.Context) (values map[string][]byte, err error) {
	err = s.beside(ctx, "values", func(ctx context.Context) error {
		texts, err := s.client.Do(ctx, s.client.B().Hgetall().Key(s.names.values()).Build()).AsStrMap()
		values = make(map[string][]byte, len(texts))
		for name, text := range texts {
			values[name] = []byte(text)
		}
		return err
	})
	return values, err
}

// AddValue implements [storage.Vault].
func (s *Store) AddValue(ctx context.Context, name string, value []byte) (kept []byte, err error) {
	err = s.beside(ctx, "add a value", func(ctx context.Context) error {
		key := s.names.values()
		answers := s.client.DoMulti(ctx,
			s.client.B().Hsetnx().Key(key).Field(name).Value(rueidis.BinaryString(value)).Build(),
			s.client.B().Hget().Key(key).Field(name).Build(),
		)
		if err := answers[0].Error(); err != nil {
			return err
		}
		kept, err = answers[1].AsBytes()
		return err
	})
	return kept, err
}

// RemoveValue implements [storage.Vault].
func (s *Store) RemoveValue(ctx context.Context, name string) error {
	return s.beside(ctx, "remove a value", func(ctx context.Context) error {
		return s.client.Do(ctx, s.client.B().Hdel().Key(s.names.values()).Field(name).Build()).Error()
	})
}

var _ storage.Vault = (*Store)(nil)
