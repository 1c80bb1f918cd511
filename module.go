package tally

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// Handler limits how many requests a client may send. It counts requests in
// named zones, keeps the counts in an embedded database, so that they survive
// reloads, restarts and crashes, and refuses what is beyond a limit with status
// 429 and a Retry-After header field.
//
// A request that belongs to several zones of a handler must be within the limits
// of all of them; one that is refused uses up nothing in any of them. Put zones
// that belong together into one handler: what a request has used up in one
// handler stays used when another one refuses it.
//
// In a Caddyfile the directive `rate_limit` is placed before authentication, and
// `rate_limit_user` behind it, for what depends on the user. Both are this handler.
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

	// Places that no honest client visits.
	Traps []*Trap `json:"traps,omitempty"`

	// Which header fields tell clients what is left for them, on allowed and
	// on refused requests:
	//
	// - `draft` (default): `RateLimit-Policy` and `RateLimit`, as in
	//   draft-ietf-httpapi-ratelimit-headers-11
	// - `legacy`: `X-RateLimit-Limit`, `X-RateLimit-Remaining` and
	//   `X-RateLimit-Reset` (seconds), and where one of several limits has the
	//   longest window, `X-Quota-Limit`, `X-Quota-Used` and `X-Quota-Reset` of it
	// - `both`
	// - `off`
	//
	// Retry-After is sent with every refusal that waiting can mend, whatever
	// this says. If several handlers decide about one request, the first of
	// them says which fields are sent, for the limits of all.
	Headers string `json:"headers,omitempty"`

	// Requests that no zone of this handler looks at: a list of matcher sets, of
	// which one must match.
	ExemptRaw caddyhttp.RawMatcherSets `json:"exempt,omitempty" caddy:"namespace=http.matchers"`

	// The page that browsers get with a refusal, instead of the app's. Default: that of the
	// `rate_limit` app.
	Page *Page `json:"page,omitempty"`

	// Spreads the return of refused clients: each Retry-After is made longer by
	// a random part of up to this fraction. 0.2 means up to 20 %. Default: 0, which adds a
	// tenth of a long wait at most, less than a slot of the limit, and no more than a minute.
	Jitter float64 `json:"jitter,omitempty"`

	// Write the key of a client that becomes blocked, and its address, to the
	// log. Default: false, because they are personal data.
	LogKey bool `json:"log_key,omitempty"`

	// Write the address of a client that becomes blocked to the log, without its key: what
	// `log_key` says but for the key. Default: false, because it is personal data.
	LogIP bool `json:"log_ip,omitempty"`

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

	// Where the handler is in a config file, such as `Caddyfile:12`, for messages. The
	// Caddyfile adapter notes it.
	Source string `json:"source,omitempty"`

	zones []*Zone // in the order in which they are looked at
	app   *App
	log   *zap.Logger
	run   *enforce.Handler

	configs []meter.Config // that are reported to metrics
}

func init() {
	caddy.RegisterModule(Handler{})
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.rate_limit",
		New: func() caddy.Module { return new(Handler) },
	}
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

// MatchEndpoint is the matcher `endpoint`.
type MatchEndpoint = matcher.Endpoint

// What modules in the namespace `rate_limit.stores` implement.
type (
	// Store keeps counts.
	Store = stores.Store
	// FileStore keeps counts in files on this machine.
	FileStore = stores.File
	// NetworkStore keeps counts on a server, for several machines together.
	NetworkStore = stores.Network
)

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)

// headerStyles are the values of the option.
var headerStyles = map[string]enforce.HeaderStyle{
	"":       {Draft: true},
	"draft":  {Draft: true},
	"legacy": {Legacy: true},
	"both":   {Draft: true, Legacy: true},
	"off":    {},
}
