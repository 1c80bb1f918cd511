package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// Zone is a named class of requests with their key and their limits.
type Zone struct {
	// The name of the zone. Zones with the same name, window and algorithm count together, in all
	// handlers and sites. A zone keeps its counts when the config is reloaded and when Caddy is
	// restarted. Required, except in `rate_limits`, where the name is the key.
	Name string `json:"name,omitempty"`

	// The requests that belong to the zone: a list of matcher sets, of which one must match. Every
	// request belongs to a zone without matchers.
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// Conditions of high load. The zone applies while one of them is met. Default: always.
	When []Condition `json:"when,omitempty"`

	// The kind of key that the zone counts by:
	//
	// - `ip`: the client's address as Caddy determines it (`trusted_proxies`
	//   applies), an IPv6 address shortened to its /64
	// - `network`: the client's network, a /24 or a /48 unless `ipv4_prefix` and `ipv6_prefix` say
	//   otherwise
	// - `asn`: the autonomous system (AS) of the client's address, usually that of its provider or
	//   hoster, found in the files of the option `networks` of the `rate_limit` app; short for the
	//   key `{http.rate_limit.asn}`
	// - `country`: the country of the client's address, found in these files; short for the key
	//   `{http.rate_limit.country}`
	// - `domain`: the registered domain of the requested host, such as `example.co.uk` of
	//   `www.example.co.uk`, by the Public Suffix List; short for the key `{http.rate_limit.domain}`
	// - `everyone`: one count for all
	// - `client`: the client, identified by its API key, else by its session (see
	//   `session` of the `rate_limit` app), else by its browser's header fields
	//   within its network, else by its network. Clients that are not verified by
	//   a key or session also have a limit together: see `prefix_ceiling`.
	// - `api_key`: the client of the API key, or the address of a client that may
	//   pass without a key: see `api_keys` of the `rate_limit` app
	// - `key`: the value of `key`
	//
	// Default: `key` if `key` or `max_events` is given, `api_key` with `tiers`, else `ip`.
	Per string `json:"per,omitempty"`

	// The value to count by, usually with placeholders, such as `{http.request.header.X-Tenant}`,
	// or behind authentication (`rate_limit_user` in a Caddyfile) `{http.auth.user.id}`. An empty
	// key, or one without placeholders, is one count for all. A misspelled placeholder is a config
	// error. A host in `{http.request.host}` counts in lower case and without a trailing dot, a
	// header field without surrounding white space, and a field of a body, such as
	// `{http.rate_limit.form.user}` or `{http.rate_limit.json.user.email}`, without differences in
	// case, accents and white space.
	Key string `json:"key,omitempty"`

	// How many bytes of a body are read for `{http.rate_limit.form.<name>}` and
	// `{http.rate_limit.json.<path>}`, at most 1048576 (1 MiB). The largest one of a handler's zones
	// counts. Default: 65536 (64 KiB).
	ReadBody int64 `json:"read_body,omitempty"`

	// The action for a request with a body in which fields of these options can't be found, although
	// a backend may find them: one that is too long, or can't be decoded, or in `key`, of another type:
	//
	// - `refuse` (default): status 413, 400 or 415
	// - `empty`: fields in `key` are empty, a `cost` is `max_cost`, or all of the smallest limit, and
	//   `tier` is unknown
	OnUnreadableBody string `json:"on_unreadable_body,omitempty"`

	// The action for a request for which every placeholder of `key` is empty:
	//
	// - `ip` (default): count it per client address
	// - `share`: all such requests share one count
	// - `skip`: let it pass without counting it in this zone
	// - `deny`: refuse it
	OnEmptyKey string `json:"on_empty_key,omitempty"`

	// The factor from one client's limits to those that all unverified clients of one network
	// share, from 1 to 1000. It bounds a script that invents a new browser for every request. For
	// zones that count per `client`. Default: 4.
	PrefixCeiling int `json:"prefix_ceiling,omitempty"`

	// The action for a request over a limit:
	//
	// - `refuse` (default): status 429
	// - `challenge`: if a browser requests a page, and its client is not verified,
	//   answer with a page on which it can earn a session, and which then returns
	//   to the requested one; the status is still 429. Other requests are refused.
	// - `delay`: the request waits until its units are free, at most for `max_delay`,
	//   in the order of arrival of its key's requests; else it is refused
	// - `pass`: it passes, and `{http.rate_limit.<zone>.would_refuse}` names the limits
	//
	// A challenge is for zones that count per `client`, or per `everyone`, which then exempts
	// clients with a session or an API key. It needs the option `session` of the `rate_limit` app.
	OnExceeded string `json:"on_exceeded,omitempty"`

	// With `on_exceeded` `delay`, the longest wait of a request, from 1ms to 1m. Required there.
	MaxDelay caddy.Duration `json:"max_delay,omitempty"`

	// With `on_exceeded` `pass`, a header field of the request with the names of the exceeded
	// limits, for later handlers and upstreams. The client's values of the field are removed.
	PassHeader string `json:"pass_header,omitempty"`

	// How many leading bits of an IPv4 address identify a client, from 1 to 32. Default when
	// counting per `ip`: the setting of the `rate_limit` app, or 32. When counting per `key`, a key
	// that is entirely an IP address is shortened only if this is given. A zone that counts per
	// `client` uses the app's setting.
	IPv4Prefix int `json:"ipv4_prefix,omitempty"`

	// How many leading bits of an IPv6 address identify a client, from 1 to 128. Default when
	// counting per `ip`: the setting of the `rate_limit` app, or 64, because a household commonly
	// has a /64 to itself. When counting per `key`, a key that is entirely an IP address is
	// shortened only if this is given. A zone that counts per `client` uses the app's setting.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`

	// How many requests may pass. A request must be within all of the limits.
	Limits []Limit `json:"limits,omitempty"`

	// How many requests of a key may be in flight at a time. Default: any number.
	Concurrent *Concurrent `json:"concurrent,omitempty"`

	// Take the limits from the client's tier instead of `limits`. The API key or service header
	// determines the tier: see `tiers` and `api_keys` of the `rate_limit` app.
	Tiers bool `json:"tiers,omitempty"`

	// Take the limits from the tier with this name, usually a placeholder, such as
	// `{http.auth.user.plan}` behind an authentication module that sets it.
	Tier string `json:"tier,omitempty"`

	// The tier of requests for which `tier` is empty or unknown. Default: they are denied with
	// status 403.
	DefaultTier string `json:"default_tier,omitempty"`

	// The cost of a request: a whole number of units from 0, or a placeholder that holds one, such
	// as `{http.request.header.X-Batch}`. A missing value counts 1, and one that
	// isn't a whole number `max_cost`, or all of the smallest limit. A cost above a
	// limit's amount is always refused, with status 403. Default: 1.
	Cost string `json:"cost,omitempty"`

	// Other costs of matching requests; the first match counts.
	Costs []Cost `json:"costs,omitempty"`

	// The highest cost of a request, at least 1: a higher cost is lowered to it, so that no request
	// can use up too much at once. Default: no bound.
	MaxCost int64 `json:"max_cost,omitempty"`

	// The measure of what a request has really used, known when it ends: `bytes` of the answer's
	// body, `duration` in milliseconds, or a placeholder that holds a whole number from 0, such as
	// `{http.response.header.X-Tokens}`, or the field of a JSON answer, such as
	// `{http.rate_limit.answer.usage.total_tokens}`. Several placeholders are added up. The cost is taken when the
	// request arrives. When it ends, the difference is given back or charged, even if it is not free: at most the
	// amount of the limit on top. So the next requests wait for what the last ones have used. If the value is missing
	// or malformed, the cost stays. Requires `cost`; not with `count`. Default: a request uses its cost.
	Settle string `json:"settle,omitempty"`

	// The requests that use up units, selected by their answers, for example failed logins.
	// Default: every request.
	Count *Count `json:"count,omitempty"`

	// Reduce the limits of this zone by the client's score, and take points for violations of them.
	// This is the default of zones per `client`, but not per `api_key`: there the limits are those that
	// a customer was promised.
	EnableReputation bool `json:"enable_reputation,omitempty"`

	// Ignore the client's score in the limits of this zone, and take no points for violations of
	// them.
	DisableReputation bool `json:"disable_reputation,omitempty"`

	// When violations of the limits of this zone lead to a ban. Default: the `ban`
	// of the `rate_limit` app.
	Ban *Ban `json:"ban,omitempty"`

	// With `max_events`, another way to write a single sliding limit: its window, at most 366 days.
	// A window below 100ms is raised to that.
	Window caddy.Duration `json:"window,omitempty"`

	// With `window`, another way to write a single sliding limit: how many requests may pass per
	// window. 0 refuses every request of the zone.
	MaxEvents int `json:"max_events,omitempty"`

	// The zones of the same name with which it counts together:
	//
	// - `shared` (default): those of all handlers, on all sites
	// - `site`: those of the same site only. A site is a host in a host matcher of
	//   a route, which may be a wildcard; all other hosts are one site per server.
	Scope string `json:"scope,omitempty"`

	// Count as if the zone were enforced, but refuse nothing: all of its limits, including those of
	// tiers, are shadow limits: see `shadow` of a limit. Requests that the zone would deny for
	// another reason, such as a missing API key or with `on_empty_key`, pass as well.
	Shadow bool `json:"shadow,omitempty"`

	// The zone's place in a config file, such as `Caddyfile:12`, for messages. The Caddyfile
	// adapter sets it.
	Source string `json:"source,omitempty"`

	// The place of an earlier zone of this name in the same block, which this one replaces as in
	// `mholt/caddy-ratelimit`, for a warning. The Caddyfile adapter sets it.
	Replaces string `json:"replaces,omitempty"`
}

// PerNetwork is `per ip` with other defaults of the prefixes.
const PerNetwork = "network"

// perKinds are the values of Zone.Per that need no key.
var perKinds = []string{enforce.PerIP, PerNetwork, perASN, perCountry, perDomain, enforce.PerEveryone,
	enforce.PerClient, enforce.PerAPIKey}

// Cost is the cost of matching requests.
type Cost struct {
	// The matching requests: a list of matcher sets, of which one must match.
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// A whole number of units from 0, or a placeholder that holds one.
	Cost string `json:"cost,omitempty"`
}

// IsPeerForm reports whether the zone is written with `window` and `max_events`.
func (z *Zone) IsPeerForm() bool {
	return len(z.Limits) == 0 && z.Concurrent == nil && !z.Tiers && z.Tier == "" &&
		(z.Per == "" || z.Window != 0 || z.MaxEvents != 0)
}

// HasOwnWords reports whether the zone uses options that mholt/caddy-ratelimit
// does not have.
func (z *Zone) HasOwnWords() bool {
	own := *z
	own.Name, own.MatcherSetsRaw, own.Key, own.Window, own.MaxEvents = "", nil, "", 0, 0
	own.IPv4Prefix, own.IPv6Prefix, own.Source = 0, 0, ""
	return !reflect.ValueOf(own).IsZero()
}

// CostTexts returns all costs as they are written.
func (z *Zone) CostTexts() []string {
	costs := []string{z.Cost}
	for _, c := range z.Costs {
		costs = append(costs, c.Cost)
	}
	return costs
}

// WantsClients reports whether a zone that isn't compiled yet will count clients.
func (z *Zone) WantsClients() bool {
	return z.Per == enforce.PerClient || z.Per == enforce.PerAPIKey || z.Per == "" && z.Tiers
}

// Ordered returns all zones of the handler in the order of evaluation.
func (h *Handler) Ordered() ([]*Zone, error) { return orderedZones(h.Zones, h.RateLimits) }

// orderedZones returns all zones of a handler in the order of evaluation: those of `rate_limits`
// after the others, tightest first.
func orderedZones(zones []*Zone, rateLimits map[string]*Zone) ([]*Zone, error) {
	zones = slices.Clone(zones)
	named := slices.SortedFunc(maps.Keys(rateLimits), func(a, b string) int {
		x, y := rateLimits[a], rateLimits[b]
		return cmp.Or(cmp.Compare(x.rate(), y.rate()), cmp.Compare(a, b))
	})
	for _, name := range named {
		z := rateLimits[name]
		if z != nil {
			if z.Name != "" && z.Name != name {
				return nil, fmt.Errorf("zone %q: its name is given as %q as well; leave one out", name, z.Name)
			}
			z.Name = name
		}
		zones = append(zones, z)
	}
	seen := make(map[string]bool)
	for _, z := range zones {
		if z == nil {
			return nil, errors.New("a zone is null; give it at least a limit, or remove it")
		}
		if seen[z.Name] {
			return nil, caddyconf.AtSource(
				fmt.Errorf("zone %q: there are two of this name; make them one, or name one otherwise", z.Name),
				z.Source)
		}
		seen[z.Name] = true
	}
	return zones, nil
}

// rate returns the events per second of a zone with `max_events` and `window`, for ordering zones.
func (z *Zone) rate() float64 {
	if z == nil || z.Window <= 0 {
		return 0
	}
	return float64(z.MaxEvents) / time.Duration(z.Window).Seconds()
}
