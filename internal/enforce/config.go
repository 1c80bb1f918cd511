package enforce

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/settle"
	"github.com/caddy-tally/caddy-tally/internal/watch"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/identity/siteverify"
	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/endpoint"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/gate"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/listener"
	"github.com/caddy-tally/caddy-tally/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/networks"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Config is the state that all handlers of a running config share.
type Config struct {
	Tenant
	OperatorRules
	Announcer

	APIKeys    *APIKeys  // nil if there are none
	Session    *Sessions // nil if there are none
	Reporter   Reporter  // of its decisions
	IPv4Prefix int       // the length of the prefix that identifies a network; 0 is the default
	IPv6Prefix int

	Tiers    []string           // names, in the order written
	Scores   bool               // clients that break rules get lower limits
	Forged   reputation.Offense // of a client that tampers with a session, or sends a solution again
	Crowded  int                // how many different clients a network may have before it is crowded
	Squeeze  reputation.Ban     // the throttling of a crowded network; zero for none
	Services []Service          // identified by a header field

	KnowsClients bool              // whether any handler identifies clients
	ZoneNames    map[uint32]string // by the hash of the name in violations
	AllZones     []*Zone           // of all handlers
	Used         bool              // whether there is any handler
	Zones        bool              // whether any handler has zones, a trap, or sessions
	Watchers     watch.Watchers    // of its decisions
	Advice       advice.List       // about the config
	Source       string            // the place of the global option in a config file, or ""
	Claims       sync.Once         // warns once that a client may have chosen its address
	handshakes   handshakes        // of banned clients

	nevers, earlier map[string]*neverSoFar // by names; of this config, and of the one before

	Doors []*listener.Door // of listeners before TLS

	Networks networks.Files  // where addresses are; nil if no files are configured
	Ledger   *history.Ledger // counts for the history; nil if there is none
}

// NewConfig returns a config without options. It logs to log.
func NewConfig(log *zap.Logger, source string) *Config {
	cfg := &Config{Source: source, ZoneNames: make(map[uint32]string), nevers: make(map[string]*neverSoFar)}
	cfg.Log, cfg.Running = log, make(chan struct{})
	cfg.onOpen, cfg.onClose = cfg.opened, cfg.closing
	return cfg
}

// Warn gives advice about the config.
func (cfg *Config) Warn(problem, fix string) {
	_ = cfg.Advice.Give(cfg.Log, advice.Advice{Problem: problem, Fix: fix, Source: cfg.Source}) // a warning is no error
}

// hasTier reports whether a tier exists.
func (cfg *Config) hasTier(name string) bool { return slices.Contains(cfg.Tiers, name) }

// Handler decides about the requests of one handler.
type Handler struct {
	Config      *Config
	Zones       []*Zone // in the order of evaluation
	Traps       []*Trap
	Exempt      caddyhttp.MatcherSets // requests that no zone examines
	ExemptReads Reads                 // of Exempt
	Answer      answer.Options
	Jitter      float64 // see [Handler]
	LogsKey     bool    // of a client that becomes blocked
	LogsIP      bool
	Metrics     bool // whether metrics count decisions
	Log         *zap.Logger
	Ctx         caddy.Context
	Events      *caddyevents.App
	Random      func() float64 // from [0, 1)
	Peer        *Peer          // of its server; nil if that trusts proxies
	Neighbors   *Never         // of a server that does; else nil
	Late        []*LateName

	PassFields  []string // the pass_field options of its zones
	MatchesBody BodyUse  // of matchers
	Fields      []bodyfield.Field
	ReadsFields int64 // bytes of bodies that are read for fields

	Clients                bool     // whether it keeps records of clients
	Anonymous              bool     // also of clients without an API key
	UsesClientPlaceholders bool     // whether its own options have placeholders of the client
	UsesDomain             bool     // whether they have that of the registered domain
	AddressedBy            []string // header fields whose last line is the client's address
	LogsAccess             bool     // its server writes access logs
	Traced                 bool     // an earlier handler may have begun a span

	Banned           *Policy // stands for a limit when a banned client is refused
	BannedByOperator *Policy // the same for a client that an operator has banned
	RuleMeter        meter.Rules
	Requests         Requests
	None             meter.Zone // of requests in no zone

	reported []meter.Config // reported to metrics
	ends     func()         // see Serve
}

// Zone is a class of requests with their key and their limits.
type Zone struct {
	Name string

	Matchers    caddyhttp.MatcherSets
	MatchReads  Reads    // of Matchers
	Per         string   // PerIP, PerEveryone, PerClient, PerAPIKey or PerKey
	Key         string   // with placeholders
	Static      string   // the key that all requests share
	EmptyForm   string   // the key if all its placeholders are empty
	OnEmptyKey  string   // the action for an empty key; "" is the default
	OneSpelling bool     // the key has placeholders with several spellings of one value
	CountsBody  BodyUse  // of the key, the tier and costs
	Fields      []string // placeholders of fields in its options; nil if it takes bodies that can't be read as empty
	KeyFields   []string // those in its key
	TierFields  []string // those in Tier
	IPv4Prefix  int      // bits of an address in a key; 0 is all
	IPv6Prefix  int

	Cost      CostRule   // the default cost
	Costs     []CostRule // costs of matching requests; the first match counts
	CostReads Reads      // of their matchers
	settle.Terms

	Concurrency *Concurrency // bounds requests in flight; nil for no bound

	Load *Load          // measures its requests; nil if nothing is measured
	When []*load.Switch // the zone applies while one of these is on; always if there are none

	Tiers       bool   // limits are those of the client's tier
	Tier        string // the name of the tier, or placeholders that hold it
	DefaultTier string // the tier if Tier is empty or unknown

	Challenges      bool            // requests over a limit get a challenge
	MaxDelay        time.Duration   // how long requests over a limit wait at most
	Line            *gate.Gate      // where they wait; nil if they don't
	PassField       string          // the request header field that names exceeded limits; "" for none
	RefusesNothing  bool            // it is in shadow, or requests over its limits pass
	DeniesAll       bool            // the zone refuses everything
	Counting        engine.Counting // which requests use up units
	EnforcesNothing bool            // none of its limits is enforced: all are shadow limits
	ShadowRefusal   *Policy         // stands for refusals of a zone in shadow that don't depend on counts; else nil
	BeforeTLS       []*Policy       // stand for why a listener closes connections, as BeforeTLSLimits; else nil
	SiteLimits
	Sites      map[string]SiteLimits // replace SiteLimits if each site counts separately
	OtherSites string                // the name in the store of sites that no matcher names

	Seen   *Never // a request of the zone; nil if nobody is asked about it
	Filled *Never // a key that isn't empty; nil for other zones
	Tiered *Never // a tier that the placeholders of Tier name; nil for other zones

	Log   atomic.Pointer[instance.RefusalLog]
	Meter meter.Zone
	Past  *history.Meter // for the history; nil if there is none

	Requests *history.Meter // of its handler
}

// IsEnforced reports whether the zone enforces any limit.
func (z *Zone) IsEnforced() bool { return !z.EnforcesNothing }

// Trap is a path that no honest client visits.
type Trap struct {
	Matchers caddyhttp.MatcherSets
	Reads    Reads              // of Matchers
	Bans     bool               // an option bans its visitors
	Offense  reputation.Offense // of verified clients
	Excused  reputation.Offense // of other clients
}

// APIKeys are the clients' API keys, and the places where requests carry them.
type APIKeys struct {
	From        []KeySource
	Store       bool   // the store holds keys too
	Missing     string // the action for a request without a key: KeyDeny, the default, or KeyDefault
	Unknown     string // the action for an unknown key
	DefaultTier string
	Keys        *apikeys.File
	NoFile      advice.Advice // given while there is no file
	config      *Config       // the config that the keys belong to
}

// KeySource is a place of an API key.
type KeySource struct {
	Kind      string        // FromHeader, FromBearer, FromQuery, FromCookie or FromPlaceholder
	In        string        // the name of the field, parameter or cookie, or a text with placeholders
	Parameter endpoint.Name // In, as upstreams read the name of a parameter or a cookie
}

// Sessions configure the sessions that clients earn by solving a challenge.
type Sessions struct {
	Path          string
	Lifetime      time.Duration
	Difficulty    int           // of a puzzle; 0 is the default
	WithoutScript time.Duration // how long a browser without JavaScript waits; 0 if waiting earns nothing
	Limits        sessionLimits
	Verifier      *siteverify.Client // nil if the challenge is a puzzle
	keys          atomic.Pointer[sessionKeys]
	Solved        *Never              // a solution
	unavailable   instance.RefusalLog // bounds the log lines about an unreachable service
}

type sessionKeys struct {
	signer *session.Signer
	Setter *challenge.Setter
}

// SiteLimits are the limits of a zone, or of one site if the zone counts each site separately.
type SiteLimits struct {
	Own    *LimitSet
	ByTier map[string]*LimitSet // replaces Own; nil for an unlimited tier
}

// LimitSet is the limits of a client in a zone: the zone's own, or those of the client's tier.
type LimitSet struct {
	answer.Set
	Policies  []*Policy // enforced limits
	Shadows   []*Policy // limits that refuse nothing
	Misplaced *Policy   // a shadow limit above an enforced one of its kind; or nil

	// In zones that count per client, the parts of each limit that clients share.
	Networks  *LimitSet // shared by a network's unverified clients
	Elsewhere *LimitSet // shared by all clients with a session away from its network
}

// Policy is a limit of a zone, ready for use.
type Policy struct {
	engine.Limit
	answer.Item // its name in header fields, metrics and logs, and its values there
	Zone        *Zone
	Set         *LimitSet       // the set that contains it
	Shadow      bool            // it refuses nothing
	Kind        string          // its dependencies besides the key; "" for shared limits
	Of          *Policy         // the client's own limit, if this one is shared; else nil
	Scaling     *engine.Scaling // how it depends on its client's standing; nil if it doesn't
	Penalty     *engine.Penalty // how long a key over it stays refused; nil if until units are free
	raised      atomic.Pointer[raised]
	Meter       meter.Limit
	Past        *history.Meter // for the history; nil if there is none
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

// All returns the limits of a client and then those that it shares: first the enforced ones, then
// the others.
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

// SetsByTier returns the limit sets of the zone, in the order of sites and tiers.
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

// PerText returns the zone's key as written in a Caddyfile.
func (z *Zone) PerText() string {
	switch {
	case z.Per != PerKey:
		return z.Per
	case z.Key == "":
		return PerEveryone
	case z.Key == "{"+ASNPlaceholder+"}":
		return "asn"
	case z.Key == "{"+CountryPlaceholder+"}":
		return "country"
	case z.Key == "{"+DomainPlaceholder+"}":
		return "domain"
	}
	return PerKey + " " + z.Key
}

// TierSet is the limits of a tier, or of all clients if Tier is "".
type TierSet struct {
	Tier string
	Set  *LimitSet
}

// The kinds of places of an API key.
const (
	FromHeader      = "header"
	FromBearer      = "bearer"
	FromQuery       = "query"
	FromPlaceholder = "placeholder"
	FromCookie      = "cookie" // which is configured as a placeholder
)

// The actions for a missing or unknown key.
const (
	KeyDeny    = "deny"
	KeyDefault = "default"
)
