package tally

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2"
)

// App keeps the counts of all `rate_limit` handlers and decides about their
// requests. It need not be configured: every option has a default.
type App struct {
	// Where the counts are kept. Default: `{"engine": "sqlite"}`.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=rate_limit.stores inline_key=engine"`

	// How often expired rows are deleted and memory of idle clients is given
	// back, at least 1s. Default: 1m.
	CleanupInterval caddy.Duration `json:"cleanup_interval,omitempty"`

	// How many counts (one per client and limit) are held in memory, at least
	// 1000. Clients beyond that are still limited, with a look at the database
	// for each of their requests. Default: 1000000.
	MaxKeys int `json:"max_keys,omitempty"`

	// How long a request may wait for the database before memory decides alone,
	// at least 1ms. Default: 100ms.
	StoreTimeout caddy.Duration `json:"store_timeout,omitempty"`

	// What share of every limit is admitted while the database can't be used,
	// in percent from 1 to 100. Default: 40.
	DegradedLimit int `json:"degraded_limit,omitempty"`

	// The file with the secret under which client addresses and other keys are
	// hashed before they reach the database: at least 32 bytes. Several machines
	// that share a database share it. It is made on first use if it does not
	// exist. Default: `tally.key` beside the database.
	SecretFile string `json:"secret_file,omitempty"`
}

// SQLiteStore keeps the counts in an embedded SQLite database, a file on this
// machine.
type SQLiteStore struct {
	// The database file. It and its folder are made if they do not exist. Put
	// it on a local disk, outside of any folder that is served.
	// Default: `rate_limit/tally.db` in Caddy's data directory.
	Path string `json:"path,omitempty"`

	// What a commit survives: `normal` (default) survives a crash of Caddy and
	// `kill -9`; `full` survives a loss of power as well and costs an fsync per
	// commit.
	Synchronous string `json:"synchronous,omitempty"`

	// The most bytes that the database file may take, at least 1 MiB.
	// Default: 1 GiB.
	MaxSize int64 `json:"max_size,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (SQLiteStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "rate_limit.stores.sqlite",
		New: func() caddy.Module { return new(SQLiteStore) },
	}
}
