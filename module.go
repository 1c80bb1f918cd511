package tally

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
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
// `rate_limit_user` behind it, for what depends on who a user is. Both stand for this
// handler.
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
	// this says.
	Headers string `json:"headers,omitempty"`

	// Requests that no zone of this handler looks at: a list of matcher sets, of
	// which one must match.
	ExemptRaw caddyhttp.RawMatcherSets `json:"exempt,omitempty" caddy:"namespace=http.matchers"`

	// Spreads the return of refused clients: each Retry-After is made longer by
	// a random part of up to this fraction. 0.2 means up to 20 %. Default: 0.
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

	// Where the handler stands in a config file, such as `Caddyfile:12`, for messages. The
	// Caddyfile adapter notes it.
	Source string `json:"source,omitempty"`

	zones                  []*Zone
	banned                 *policy // what refuses a banned client, in the place of a limit
	clients                bool    // whether it treats clients by how they stand
	anonymous              bool    // and also those without an API key
	usesClientPlaceholders bool    // whether its own options have placeholders that tell of them
	exempt                 caddyhttp.MatcherSets
	style                  headerStyle
	addressedBy            []string // header fields of which the last line is the client's address
	app                    *App
	events                 *caddyevents.App
	ctx                    caddy.Context
	log                    *zap.Logger
	random                 func() float64 // from [0, 1)
	late                   []*lateName
	routed                 bool      // what is around this handler wants errors
	none                   zoneMeter // of requests that belong to no zone

	configs []configLabels // that are reported to metrics
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

// Provision checks the configuration and gets the handler ready. It opens
// nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.ctx, h.log, h.random = ctx, ctx.Logger(), rand.Float64
	h.routed, h.addressedBy = errorRouted(ctx), clientIPFields(ctx)
	if err := h.loadApps(ctx); err != nil {
		return err
	}
	for _, step := range []func(caddy.Context) error{
		h.checkOrder, h.provisionPeerOptions, h.provisionHeaders, h.warnOfPeers, h.loadExempt, h.provisionZones, h.provisionMetrics,
	} {
		if err := step(ctx); err != nil {
			return atSource(err, h.Source)
		}
	}
	return nil
}

func (h *Handler) provisionHeaders(caddy.Context) error {
	style, ok := headerStyles[h.Headers]
	if !ok {
		return fmt.Errorf("headers: must be draft, legacy, both or off, got %q", h.Headers)
	}
	h.style = style
	return nil
}

func (h *Handler) loadApps(ctx caddy.Context) error {
	app, err := ctx.App("rate_limit")
	if err != nil {
		return fmt.Errorf("getting rate_limit app: %w", err)
	}
	h.app = app.(*App)
	if app, err = ctx.App("events"); err != nil {
		return fmt.Errorf("getting events app: %w", err)
	}
	h.events = app.(*caddyevents.App)
	return nil
}

// provisionPeerOptions checks the options that are there for compatibility.
func (h *Handler) provisionPeerOptions(ctx caddy.Context) error {
	if h.Jitter < 0 || math.IsNaN(h.Jitter) {
		return fmt.Errorf("jitter must be at least zero, got %v", h.Jitter)
	}
	if h.StorageRaw != nil {
		module, err := ctx.LoadModule(h, "StorageRaw")
		if err != nil {
			return fmt.Errorf("loading storage module: %w", err)
		}
		if _, ok := module.(caddy.StorageConverter); !ok {
			return fmt.Errorf("module %T is not a caddy.StorageConverter", module)
		}
	}
	if h.Distributed != nil || h.StorageRaw != nil {
		h.warn("distributed and storage have no effect: counts are kept in the database of the rate_limit app, which all Caddy processes that use the file share",
			"neither of them")
	}
	return nil
}

func (h *Handler) provisionZones(ctx caddy.Context) error {
	survey := h.app.surveyed(ctx)
	zones, err := h.ordered()
	if err != nil {
		return err
	}
	if config, err := json.Marshal(h); err == nil { // before matchers are loaded, and their texts given up
		h.usesClientPlaceholders = bytes.Contains(config, []byte("{http.rate_limit.client"))
	}
	for _, z := range zones {
		if err := z.provision(ctx, h.app, survey, h.log); err != nil {
			return err
		}
		h.app.zoneNames[zoneHash(z.Name)] = z.Name
	}
	h.zones = zones
	h.provisionLate()
	h.warnIfIdle()
	for _, t := range h.Traps {
		if t == nil {
			return errors.New("a trap is null; give it a matcher, or remove it")
		}
		if err := t.provision(ctx, h.app); err != nil {
			return atSource(err, t.Source)
		}
	}
	h.clients, h.anonymous = h.knowsClients(), h.knowsAnonymous()
	h.app.knowsClients = h.app.knowsClients || h.clients
	h.banned = &policy{zone: &Zone{Name: "ban"}, name: "ban"}
	if len(zones) > 0 || len(h.Traps) > 0 || h.app.Session != nil {
		h.app.zones = true
		h.warnOfPlainHTTP(ctx)
		h.app.warnOfLooseProxies(ctx)
		h.app.warnIfServed(ctx)
	}
	return nil
}

func (h *Handler) provisionMetrics(ctx caddy.Context) error {
	if h.DisableMetrics {
		return nil
	}
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	for _, z := range h.zones {
		z.meter = newZoneMeter(z.Name)
		for _, set := range z.sets() {
			h.provisionMeters(z, set)
			set.provisionShared()
		}
	}
	h.none = newZoneMeter("false")
	return nil
}

func (h *Handler) provisionMeters(z *Zone, set *limitSet) {
	for _, p := range set.policies {
		p.meter = newLimitMeter(z.Name, p.name)
		config := configured(z, p)
		liveConfigs.LoadOrStore(config, config)
		h.configs = append(h.configs, config)
	}
}

// Cleanup ends what Provision began.
func (h *Handler) Cleanup() error {
	for _, config := range h.configs {
		if _, err := liveConfigs.Delete(config); err != nil {
			return err
		}
	}
	return nil
}

// ServeHTTP lets a request pass that is within all limits, and refuses others.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	h.app.applyServiceHeader(r)
	if h.app.Session.serves(r.URL.Path) {
		return h.serveSession(w, r)
	}
	result := h.evaluate(r)
	switch result.outcome {
	case passed:
		return next.ServeHTTP(w, r)
	case counted:
		result.response.setFields(w.Header())
		next = h.watchPlaceholders(result.empty, next)
		return next.ServeHTTP(result.response.writer(w), r)
	case refused:
		return h.refuse(w, r, result.response)
	case challenged:
		return result.exchange.challenge(w, result.response)
	case tooEarly:
		return askAgain(w)
	default: // denied, abandoned or failed
		return h.deny(w, r, result.err)
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

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
