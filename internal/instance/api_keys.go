package instance

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// This file keeps API keys in a shared store. Each is a note there, like an operator's rule: its
// name is a keyed hash, and its value is the sealed line of a file of keys. So readers of the store
// learn neither names nor hashes, and can't look anything up.

// keyNote is the prefix of the line of an API key's note.
const keyNote = "api-key "

// maxSharedKeys is the most API keys in a store. The rest of its notes is for bans.
const maxSharedKeys = storage.MaxNotes / 4

// sharedKey is an API key in the store.
type sharedKey struct {
	apikeys.Stored
	origin
}

// keysLocked returns all known keys.
func (s *SharedRules) keysLocked() (list []apikeys.Stored) {
	for _, key := range s.api {
		list = append(list, key.Stored)
	}
	return list
}

// ListKeys returns the keys in the order of their lines.
func (s *SharedRules) ListKeys() []apikeys.Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.keysLocked()
	slices.SortFunc(list, func(a, b apikeys.Stored) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// KeysOf returns the keys of a client. If id is not "", it returns only the key with that id.
func (s *SharedRules) KeysOf(client, id string) map[storage.Key]sharedKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return matching(s.api, len(s.api),
		func(key sharedKey) bool { return key.Name == client && (id == "" || key.Entry().ID == id) })
}

// nameOfKey returns the name of the note about a key.
func (c *changes) nameOfKey(key apikeys.Stored) storage.Key {
	return c.names.Hash(0, keyNote+string(key.Hash[:]))
}

// addKey adds a key with this version or a later one.
func (c *changes) addKey(key apikeys.Stored, version int64) {
	c.note(storage.Note{Name: c.nameOfKey(key), Version: version}, keyNote+key.String(), key.Expires)
}

// AddKey adds a key to the store.
func (s *SharedRules) AddKey(ctx context.Context, key apikeys.Stored) error {
	if len(s.ListKeys()) >= maxSharedKeys {
		return operator.Errorf(http.StatusConflict,
			"the store has %d API keys, which is as many as it may; revoke some: nothing was changed", maxSharedKeys)
	}
	for _, other := range s.KeysOf(key.Name, "") {
		if other.Tier != key.Tier {
			return operator.Errorf(http.StatusConflict, "%s has the tier %s already, got %s: a name has one; caddy rate-limit key tier %s %s --store changes it", key.Name, other.Tier, key.Tier, key.Name, key.Tier)
		}
	}
	c := s.newChanges()
	c.addKey(key, 0)
	return s.instance.Engine.PutNotes(ctx, c.list())
}

// RevokeKeys removes keys from the store, regardless of concurrent changes to them.
func (s *SharedRules) RevokeKeys(ctx context.Context, keys map[storage.Key]sharedKey) error {
	c := s.newChanges()
	for name, key := range keys {
		c.removeOne(name, key.Expires, key.version)
		if key.older { // another machine may be about to reseal it
			c.removeOne(c.nameOfKey(key.Stored), key.Expires, key.version)
		}
	}
	return s.instance.Engine.PutNotes(ctx, c.list())
}

// RetierKeys changes the tier of keys. A concurrently revoked key stays revoked (decision 30).
func (s *SharedRules) RetierKeys(ctx context.Context, keys map[storage.Key]sharedKey, tier string) error {
	c := s.newChanges()
	for name, key := range keys {
		if key.older {
			c.removeOne(name, key.Expires, key.version)
		}
		key.Tier = tier
		c.addKey(key.Stored, key.version+1)
	}
	return s.instance.Engine.ReplaceNotes(ctx, c.list())
}
