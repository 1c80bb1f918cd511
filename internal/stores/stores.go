// Package stores has the modules that keep counts on one machine, and the interfaces of all store
// modules.
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
	// Counts identifies the counts, however they are used. It contains no secrets.
	Counts() string
	// Identity identifies the counts of the store, and its configuration: stores with equal
	// identities are interchangeable.
	Identity() string
	// Open opens the store. Before that nothing is opened, created or changed. A call of the store
	// may wait for other processes for as long as requests wait for it.
	Open(ctx context.Context, timeout time.Duration) (storage.Store, error)
}

// File is a [Store] that keeps the counts in files on this machine.
type File interface {
	Store
	// Place describes the counts' place for operators. It contains no secrets.
	Place() string
	// Folder is the folder for further files of the store.
	Folder() string
}

// Network is a [Store] that keeps the counts on a server, for several machines together. They must
// have the same `secret_file`. Open must return a [storage.Network], which has the keys
// for names at rest, sealed with the secret.
type Network interface {
	Store
	// Address describes the server for operators, as in `host:6379`. It contains no secrets.
	Address() string
	// Plain returns the addresses that are reached without TLS, and what to write so that they are reached with it.
	Plain() (addresses []string, fix string)
}

// Keyed is a [Store] with the secret and the keys for names at rest, and no file for them.
type Keyed interface {
	Store
	Keys() (*identity.Secret, *epoch.Keys)
}
