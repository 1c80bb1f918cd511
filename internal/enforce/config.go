package enforce

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/pressure"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/identity/siteverify"
	"github.com/caddy-tally/caddy-tally/internal/endpoint"
	"github.com/caddy-tally/caddy-tally/internal/gate"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Config is what all handlers of a config share while it runs.
type Config struct {
	Tenant
	Statements

	APIKeys     *APIKeys     // nil if there are none
	Session     *Sessions    // nil if there are none
	DecisionLog *DecisionLog // nil if there is none
	IPv4Prefix  int          // bits of an address that is a network; 0 is the default
	IPv6Prefix  int

	Tiers    []string           // their names, in the order written
	Scores   bool               // clients that break rules have lower limits
	Forged   reputation.Offense // of a client that has tampered with a session, or sends a solution again
	Crowded  pressure.Rule      // when a network is
	Squeeze  reputation.Ban     // what happens to it then; zero if nothing does
	Warn     func(problem, write string)
	Services []Service // known by a header field

	KnowsClients bool              // whether any handler needs the identified client
	ZoneNames    map[uint32]string // by the hash of the name that violations hold
	AllZones     []*Zone           // of all handlers
	Used         bool              // whether there is any handler
	Zones        bool              // whether any handler has any, or a trap, or sessions
	Watchers     Watchers          // of its decisions
	Claims       sync.Once         // a request's address was one that its client may have chosen

	Ledger *history.Ledger // what is counted for the history; nil if there is none
}

// NewConfig returns a config without options. It writes to log, and warns with warn.
func NewConfig(log *zap.Logger, warn func(problem, write string)) *Config {
	a := &Config{Warn: warn, ZoneNames: make(map[uint32]string)}
	a.Log, a.Running = log, make(chan struct{})
	a.onOpen, a.onClose = a.opened, a.closing
	return a
}

// hasTier reports whether there is a tier of a name.
func (a *Config) hasTier(name string) bool { return slices.Contains(a.Tiers, name) }

// Handler decides about the requests of one handler.
type Handler struct {
	App     *Config
	Zones   []*Zone // in the order in which they are looked at
	Traps   []*Trap
	Exempt  caddyhttp.MatcherSets // no zone looks at these
	Style   HeaderStyle
	Page    *Pages
	Jitter  float64 // see [Handler]
	LogsKey bool    // of a client that becomes blocked
	LogsIP  bool
	Metrics bool // whether decisions are counted for them
	Log     *zap.Logger
	Ctx     caddy.Context
	Events  *caddyevents.App
	Random  func() float64 // from [0, 1)
	Late    []*LateName

	PassFields []string // of its zones

	Clients                bool     // whether it keeps records of clients
	Anonymous              bool     // and also those without an API key
	UsesClientPlaceholders bool     // whether its own options have placeholders of the client
	AddressedBy            []string // header fields of which the last line is the client's address
	Routed                 bool     // what is around this handler wants errors
	LogsAccess             bool     // its server writes access logs
	Traced                 bool     // a handler may have begun a span

	Banned           *Policy // what refuses a banned client, in the place of a limit
	BannedByOperator *Policy // what refuses a client that an operator has banned
	Statements       meter.Rules
	None             meter.Zone // of requests that belong to no zone

	reported []meter.Config // to metrics
}

// Zone is a class of requests, what they are counted per, and how many of them may pass.
type Zone struct {
	Name   string
	Source string // where it is in a config file; "" if that isn't known

	Matchers    caddyhttp.MatcherSets
	Per         string // PerIP, PerEveryone, PerClient, PerAPIKey or PerKey
	Key         string // with placeholders
	Static      string // the key that everyone shares
	EmptyForm   string // what the key is if all its placeholders are empty
	OnEmptyKey  string // what then happens; "" is the default
	OneSpelling bool   // the key has placeholders of which different values mean the same
	IPv4Prefix  int    // bits of an address that a key is; 0 is all
	IPv6Prefix  int

	Cost    CostRule   // what most requests cost
	Costs   []CostRule // of those that match; the first one counts
	MaxCost int64      // 0 if there is none
	Count   *Count     // which answers count; nil if all do

	Concurrency *Concurrency // how many requests may be under way; nil for no bound

	Load *Load          // what is measured of its requests; nil if nothing is
	When []*load.Switch // the zone applies while one of these is on; always if there are none

	Tiers       bool   // limits are those of the client's tier
	Tier        string // placeholders that hold the tier, or its name
	DefaultTier string // if that is none

	Challenges bool            // what is over a limit gets a challenge
	MaxDelay   time.Duration   // how long what is over a limit waits
	Line       *gate.Gate      // where it does; nil if it doesn't
	PassField  string          // the header field of a request that names the limits it is over; "" for none
	Shadow     bool            // as configured: nothing is refused
	DeniesAll  bool            // nothing passes
	Counting   engine.Counting // which requests use up units
	IsShadow   bool            // no limit is enforced
	Denied     *Policy         // stands for what a zone in shadow would deny, whatever was counted; else nil
	SiteLimits
	Sites     map[string]SiteLimits // instead, where each site counts on its own
	Elsewhere string                // what a site is called in the store that no matcher names

	log   atomic.Pointer[instance.RefusalLog]
	Meter meter.Zone
	Past  *history.Meter // for the history; nil if there is none
}

// IsEnforced reports whether a limit of the zone is.
func (z *Zone) IsEnforced() bool { return !z.IsShadow }

// Trap is a place that no honest client visits.
type Trap struct {
	Matchers caddyhttp.MatcherSets
	Bans     bool               // by an option of its own
	Offense  reputation.Offense // of verified clients
	Excused  reputation.Offense // of others
}

// Count says which answers count.
type Count struct {
	Status   []int    // or the first digit of many
	When     []Answer // as well; what they say of an answer is known once its header is
	Hold     bool     // units are held until the answer is known
	ReadBody int64    // bytes of the body that are read before; 0 for none
}

// Answer describes answers. All that it says must hold.
type Answer struct {
	caddyhttp.ResponseMatcher
	MinSize, MaxSize int64  // of the content, in bytes; 0 for no bound
	Text             string // as a Caddyfile has it
}

// matches reports whether an answer is one of those. One that doesn't say its length has no size.
func (a *Answer) matches(status int, header http.Header) bool {
	if a.MinSize > 0 || a.MaxSize > 0 {
		size, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
		if err != nil || size < a.MinSize || a.MaxSize > 0 && size > a.MaxSize {
			return false
		}
	}
	return a.Match(status, header)
}

// APIKeys are the keys that clients have, and where they send them.
type APIKeys struct {
	From        []KeySource
	Store       bool   // there are keys in the store as well
	Missing     string // what happens without a key: KeyDeny, the default, or KeyDefault
	Unknown     string // what happens with an unknown one
	DefaultTier string
	Keys        *apikeys.File
	of          *Config // whose keys they are
}

// KeySource is a place of an API key.
type KeySource struct {
	Kind      string        // FromHeader, FromBearer, FromQuery, FromCookie or FromPlaceholder
	In        string        // the name that belongs to it, or the text with placeholders
	Parameter endpoint.Name // in, as upstreams read the name of a parameter or a cookie
}

// Sessions are what a challenge is solved for.
type Sessions struct {
	Path          string
	Lifetime      time.Duration
	Difficulty    int           // of a puzzle; 0 is the default
	WithoutScript time.Duration // how long a browser without JavaScript waits; 0 if that earns nothing
	Limits        sessionLimits
	Verifier      *siteverify.Client // nil: a puzzle
	keys          atomic.Pointer[sessionKeys]
	unavailable   instance.RefusalLog // bounds what is logged of a service that can't be asked
}

type sessionKeys struct {
	signer *session.Signer
	Setter *challenge.Setter
}

// Pages are the pages that browsers get.
type Pages struct {
	Disabled bool
	Refused  page.Refused
}

// DecisionLog are lines about decisions, of four kinds.
type DecisionLog struct {
	Sample                           int // one in so many allowed requests; 0 for none
	Log                              *zap.Logger
	first, repeated, shadow, allowed instance.PerSecond
}

// SiteLimits are the limits of a zone, or of one site if the zone counts each site on its
// own.
type SiteLimits struct {
	Own    *LimitSet
	ByTier map[string]*LimitSet // instead of own; nil for an unlimited tier
}

// LimitSet is the limits that a client has in a zone: the zone's own, or those of the
// client's tier.
type LimitSet struct {
	Policies  []*Policy // that are enforced
	Shadows   []*Policy // that refuse nothing
	Misplaced *Policy   // a shadow limit above an enforced one of its kind; or nil
	Field     string    // the value of RateLimit-Policy

	// In zones that count per client, what clients share of each limit.
	Networks  *LimitSet // all those of a network that are not verified
	Elsewhere *LimitSet // all that use a session away from where it was issued
}

// Policy is a limit of a zone, ready for use.
type Policy struct {
	engine.Limit
	Zone    *Zone
	Set     *LimitSet       // that it is one of
	Name    string          // in header fields, metrics and logs
	Field   string          // the item of RateLimit-Policy
	item    string          // the item of RateLimit up to the value of r
	Legacy  string          // the value of X-RateLimit-Limit
	Shadow  bool            // it refuses nothing
	Kind    string          // what its counts depend on besides the key; "" of what clients share
	Of      *Policy         // the client's own limit, where this is what clients share of it; else nil
	Scaling *engine.Scaling // how it changes with the standing of its client; nil if it doesn't
	Quota   bool            // it has the longest window of several: X-Quota-… are about it
	Meter   meter.Limit
	past    *history.Meter // for the history; nil if there is none
}

// Sets returns all limit sets of the zone: those of every tier on every site.
func (z *Zone) Sets() (sets []*LimitSet) {
	for _, l := range append(slices.Collect(maps.Values(z.Sites)), z.SiteLimits) {
		for _, set := range append(slices.Collect(maps.Values(l.ByTier)), l.Own) {
			if set != nil {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

// All returns the limits of a client, and then those that it shares; those that are enforced, and
// then those that are not.
func (s *LimitSet) All() (policies []*Policy) {
	sets := []*LimitSet{s}
	for _, shared := range []*LimitSet{s.Networks, s.Elsewhere} {
		if shared != nil {
			sets = append(sets, shared)
		}
	}
	for _, set := range sets {
		policies = append(policies, set.Policies...)
	}
	for _, set := range sets {
		policies = append(policies, set.Shadows...)
	}
	return policies
}

// SetsByTier returns what clients of the zone can be held to, in the order of sites and
// tiers.
func (z *Zone) SetsByTier(tiers []string) (sets []TierSet) {
	sites := []SiteLimits{z.SiteLimits}
	for _, site := range slices.Sorted(maps.Keys(z.Sites)) {
		sites = append(sites, z.Sites[site])
	}
	for _, limits := range sites {
		if limits.Own != nil {
			sets = append(sets, TierSet{"", limits.Own})
		}
		for _, tier := range tiers {
			if set := limits.ByTier[tier]; set != nil {
				sets = append(sets, TierSet{tier, set})
			}
		}
	}
	return sets
}

// PerText returns what the zone counts by, as in a Caddyfile.
func (z *Zone) PerText() string {
	switch {
	case z.Per != PerKey:
		return z.Per
	case z.Key == "":
		return PerEveryone
	}
	return PerKey + " " + z.Key
}

// TierSet is the limits of a tier, or of all clients if the tier is "".
type TierSet struct {
	Tier string
	Set  *LimitSet
}

// The kinds of places where a key may be.
const (
	FromHeader      = "header"
	FromBearer      = "bearer"
	FromQuery       = "query"
	FromPlaceholder = "placeholder"
	FromCookie      = "cookie" // which is configured as a placeholder
)

// What can be done about a key that is missing or unknown.
const (
	KeyDeny    = "deny"
	KeyDefault = "default"
)
