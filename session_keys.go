package tally

import (
	"context"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
)

// ready returns the keys of sessions and challenges, or nil while there is no secret.
func (s *sessions) ready(ctx context.Context, a *shared) *sessionKeys {
	if keys := s.keys.Load(); keys != nil {
		return keys
	}
	h := a.use()
	if h == nil {
		return nil
	}
	secret := h.AwaitSecret(ctx)
	if secret == nil {
		return nil
	}
	keys, err := s.derive(secret)
	if err != nil {
		return nil // not reached: provision has checked the options
	}
	s.keys.Store(keys)
	return keys
}

func (s *sessions) derive(secret *identity.Secret) (*sessionKeys, error) {
	signer, err := session.New(secret, session.Options{Lifetime: s.Lifetime})
	if err != nil {
		return nil, err
	}
	setter, err := challenge.New(secret, challenge.Options{Difficulty: s.difficulty})
	return &sessionKeys{signer, setter}, err
}
