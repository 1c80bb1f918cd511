// Package stores has the modules that keep counts on one machine, and what is expected of all of them.
package stores

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Store is a module that keeps the counts, in the namespace `rate_limit.stores`.
type Store interface {
	caddy.Module
	// Identity says which counts the store keeps, and how: stores that are equal in
	// it keep the same, alike.
	Identity() string
	// Open opens the store. Nothing is opened, made or changed before. A call of the
	// store may wait for other processes for as long as requests wait for it.
	Open(ctx context.Context, timeout time.Duration) (storage.Store, error)
}

// File is a [Store] that keeps the counts in files on this machine.
type File interface {
	Store
	// Place says where the counts are, for those who run the server. It shows
	// nothing that must stay secret.
	Place() string
	// Folder is where files that belong to the counts are kept.
	Folder() string
}

// Network is a [Store] that keeps the counts on a server, for several machines together.
// They must have the same `secret_file`. What Open returns must be a [storage.Vault]: in it are
// the keys that names at rest are made under, sealed under the secret.
type Network interface {
	Store
	// Address says where the counts are, for those who run the server, as in `host:6379`. It
	// shows nothing that must stay secret.
	Address() string
}

// Keyed is a [Store] that has the secret and the keys that names at rest are
// made under, and no file for them.
type Keyed interface {
	Store
	Keys() (*identity.Secret, *epoch.Keys)
}
