package operator

import (
	"context"
	"time"
)

// StoredKey is an API key in the store, without the key.
type StoredKey struct {
	Name    string     `json:"name"`
	Tier    string     `json:"tier"`
	ID      string     `json:"id"`                // tells the keys of a name apart
	Expires *time.Time `json:"expires,omitempty"` // missing if it never does
}

// APIKeyChange is a change to the API keys of a name.
type APIKeyChange struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`   // of one of them; "" for all
	Tier string `json:"tier,omitempty"` // their new tier; "" to revoke them
	// Done is an action of the audit, if the change was made in a file already, and is only to be noted.
	Done string `json:"done,omitempty"`
}

// The actions of the audit on API keys.
const (
	KeyMade    = "key new"
	KeyTier    = "key tier"
	KeyRevoked = "key revoke"
)

// newAPIKey is the line of a new key.
type newAPIKey struct {
	Line string `json:"line"`
}

// changedKeys is the number of changed API keys.
type changedKeys struct {
	Changed int `json:"changed"`
}

// APIKeys implements [Service].
func (r *Remote) APIKeys(ctx context.Context) ([]StoredKey, error) {
	return ask[[]StoredKey](ctx, r, "api-keys", nil)
}

// AddAPIKey implements [Service].
func (r *Remote) AddAPIKey(ctx context.Context, line string) error {
	_, err := tell[changedKeys](ctx, r, "api-keys/add", newAPIKey{line})
	return err
}

// ChangeAPIKeys implements [Service].
func (r *Remote) ChangeAPIKeys(ctx context.Context, change APIKeyChange) (int, error) {
	changed, err := tell[changedKeys](ctx, r, "api-keys/change", change)
	return changed.Changed, err
}
