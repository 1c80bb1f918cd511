package tally

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2"
)

// Handler limits how many requests a client may send. It counts requests in
// named zones, keeps the counts in an embedded database, so that they survive
// reloads, restarts and crashes, and refuses what is beyond a limit with status
// 429 and a Retry-After header field.
//
// A request that belongs to several zones must be within the limits of all of
// them; one that is refused uses up nothing in any of them.
//
// Where the counts are kept is configured in the `rate_limit` app; it need not
// be, all of it has defaults. Configs for `mholt/caddy-ratelimit` are accepted
// unchanged.
type Handler struct {
	// The zones, in the order in which they are looked at.
	Zones []*Zone `json:"zones,omitempty"`

	// Zones by name, for configs that were written for
	// `mholt/caddy-ratelimit`. They are looked at after `zones`, tightest
	// first.
	RateLimits map[string]*Zone `json:"rate_limits,omitempty"`

	// Which header fields tell clients what is left for them, on allowed and
	// on refused requests:
	//
	// - `draft` (default): `RateLimit-Policy` and `RateLimit`, as in
	//   draft-ietf-httpapi-ratelimit-headers-11
	// - `legacy`: `X-RateLimit-Limit`, `X-RateLimit-Remaining` and
	//   `X-RateLimit-Reset` (seconds)
	// - `both`
	// - `off`
	//
	// Retry-After is sent with every refusal that waiting can mend, whatever
	// this says.
	Headers string `json:"headers,omitempty"`

	// Spreads the return of refused clients: each Retry-After is made longer by
	// a random part of up to this fraction. 0.2 means up to 20 %. Default: 0.
	Jitter float64 `json:"jitter,omitempty"`

	// Write the key of a client that becomes blocked, and its address, to the
	// log. Default: false, because they are personal data.
	LogKey bool `json:"log_key,omitempty"`

	// Keep no metrics for this handler.
	DisableMetrics bool `json:"disable_metrics,omitempty"`

	// Accepted for compatibility with `mholt/caddy-ratelimit` and without
	// effect: see `cleanup_interval` of the `rate_limit` app.
	SweepInterval caddy.Duration `json:"sweep_interval,omitempty"`

	// Accepted for compatibility with `mholt/caddy-ratelimit` and without
	// effect: Caddy processes that use one database file share their counts
	// already.
	Distributed *Distributed `json:"distributed,omitempty"`

	// Accepted for compatibility with `mholt/caddy-ratelimit`: the storage that
	// its `distributed` mode used. The module must exist; it is not used.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=caddy.storage inline_key=module"`
}

// Distributed is accepted for compatibility with `mholt/caddy-ratelimit`.
type Distributed struct {
	// Without effect.
	ReadInterval caddy.Duration `json:"read_interval,omitempty"`
	// Without effect.
	WriteInterval caddy.Duration `json:"write_interval,omitempty"`
	// Without effect.
	PurgeAge caddy.Duration `json:"purge_age,omitempty"`
}
