package tally

import (
	"maps"
	"slices"
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
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// shared is what all handlers of a config share while it runs.
type shared struct {
	APIKeys     *apiKeys   // nil if there are none
	Session     *sessions  // nil if there are none
	DecisionLog *decisions // nil if there is none
	IPv4Prefix  int        // bits of an address that is a network; 0 is the default
	IPv6Prefix  int

	tiers    []string           // their names, in the order written
	scores   bool               // clients that break rules have lower limits
	forged   reputation.Offense // of a client that has tampered with a session, or sends a solution again
	crowded  pressure.Rule      // when a network is
	squeeze  reputation.Ban     // what happens to it then; zero if nothing does
	region   *instance.Region   // nil if there is only one
	warn     func(problem, write string)
	log      *zap.Logger
	services []service // known by a header field

	knowsClients bool              // whether any handler needs the identified client
	zoneNames    map[uint32]string // by the hash of the name that violations hold
	allZones     []*zone           // of all handlers
	zones        bool              // whether any handler has any, or a trap, or sessions
	watchers     watchers          // of its decisions
	claims       sync.Once         // a request's address was one that its client may have chosen

	rules    *rules.File
	stated   instance.RulesInForce
	store    stores.Store
	settings instance.Settings
	ledger   *history.Ledger // what is counted for the history; nil if there is none

	running  chan struct{} // closed when it is known whether the config runs
	runsOnce sync.Once     // closes running

	mu       sync.Mutex
	instance atomic.Pointer[instance.Instance] // written under mu; nil until it is needed
	closed   bool                              // guarded by mu
}

// hasTier reports whether there is a tier of a name.
func (a *shared) hasTier(name string) bool { return slices.Contains(a.tiers, name) }

// enforcer decides about the requests of one handler.
type enforcer struct {
	app     *shared
	zones   []*zone // in the order in which they are looked at
	traps   []*trap
	exempt  caddyhttp.MatcherSets // no zone looks at these
	style   headerStyle
	page    *refusedPages
	jitter  float64 // see [Handler]
	logsKey bool    // of a client that becomes blocked
	logsIP  bool
	metrics bool // whether decisions are counted for them
	log     *zap.Logger
	ctx     caddy.Context
	events  *caddyevents.App
	random  func() float64 // from [0, 1)
	late    []*lateName

	clients                bool     // whether it keeps records of clients
	anonymous              bool     // and also those without an API key
	usesClientPlaceholders bool     // whether its own options have placeholders of the client
	addressedBy            []string // header fields of which the last line is the client's address
	routed                 bool     // what is around this handler wants errors
	logsAccess             bool     // its server writes access logs
	traced                 bool     // a handler may have begun a span

	banned           *policy // what refuses a banned client, in the place of a limit
	bannedByOperator *policy // what refuses a client that an operator has banned
	statements       meter.Rules
	none             meter.Zone // of requests that belong to no zone
}

// zone is a class of requests, what they are counted per, and how many of them may pass.
type zone struct {
	Name   string
	Source string // where it is in a config file; "" if that isn't known

	matchers    caddyhttp.MatcherSets
	per         string // perIP, perEveryone, perClient, perAPIKey or perKey
	Key         string // with placeholders
	static      string // the key that everyone shares
	emptyForm   string // what the key is if all its placeholders are empty
	OnEmptyKey  string // what then happens; "" is the default
	oneSpelling bool   // the key has placeholders of which different values mean the same
	IPv4Prefix  int    // bits of an address that a key is; 0 is all
	IPv6Prefix  int

	cost    costRule   // what most requests cost
	costs   []costRule // of those that match; the first one counts
	MaxCost int64      // 0 if there is none
	Count   *countRule // which answers count; nil if all do

	Tiers       bool   // limits are those of the client's tier
	Tier        string // placeholders that hold the tier, or its name
	DefaultTier string // if that is none

	challenges bool            // what is over a limit gets a challenge
	Shadow     bool            // as configured: nothing is refused
	deniesAll  bool            // nothing passes
	counting   engine.Counting // which requests use up units
	isShadow   bool            // no limit is enforced
	denied     *policy         // stands for what a zone in shadow would deny, whatever was counted; else nil
	siteLimits
	sites     map[string]siteLimits // instead, where each site counts on its own
	elsewhere string                // what a site is called in the store that no matcher names

	log   atomic.Pointer[instance.RefusalLog]
	meter meter.Zone
	past  *history.Meter // for the history; nil if there is none
}

// isEnforced reports whether a limit of the zone is.
func (z *zone) isEnforced() bool { return !z.isShadow }

// trap is a place that no honest client visits.
type trap struct {
	matchers caddyhttp.MatcherSets
	bans     bool               // by an option of its own
	offense  reputation.Offense // of verified clients
	excused  reputation.Offense // of others
}

// countRule says which answers count.
type countRule struct {
	Status   []int // or the first digit of many
	Hold     bool  // units are held until the answer is known
	ReadBody int64 // bytes of the body that are read before; 0 for none
}

// apiKeys are the keys that clients have, and where they send them.
type apiKeys struct {
	From        []keySource
	Store       bool   // there are keys in the store as well
	Missing     string // what happens without a key: keyDeny, the default, or keyDefault
	Unknown     string // what happens with an unknown one
	DefaultTier string
	keys        *apikeys.File
}

// keySource is a place of an API key.
type keySource struct {
	kind      string        // fromHeader, fromBearer, fromQuery, fromCookie or fromPlaceholder
	in        string        // the name that belongs to it, or the text with placeholders
	parameter endpoint.Name // in, as upstreams read the name of a parameter or a cookie
}

// sessions are what a challenge is solved for.
type sessions struct {
	Path          string
	Lifetime      time.Duration
	difficulty    int           // of a puzzle; 0 is the default
	withoutScript time.Duration // how long a browser without JavaScript waits; 0 if that earns nothing
	limits        sessionLimits
	verifier      *siteverify.Client // nil: a puzzle
	keys          atomic.Pointer[sessionKeys]
	unavailable   instance.RefusalLog // bounds what is logged of a service that can't be asked
}

type sessionKeys struct {
	signer *session.Signer
	setter *challenge.Setter
}

// refusedPages are the pages that browsers get.
type refusedPages struct {
	Disabled bool
	refused  page.Refused
}

// decisions are lines about decisions, of four kinds.
type decisions struct {
	Sample                           int // one in so many allowed requests; 0 for none
	log                              *zap.Logger
	first, repeated, shadow, allowed instance.PerSecond
}

// siteLimits are the limits of a zone, or of one site if the zone counts each site on its
// own.
type siteLimits struct {
	own    *limitSet
	byTier map[string]*limitSet // instead of own; nil for an unlimited tier
}

// limitSet is the limits that a client has in a zone: the zone's own, or those of the
// client's tier.
type limitSet struct {
	policies  []*policy // that are enforced
	shadows   []*policy // that refuse nothing
	misplaced *policy   // a shadow limit above an enforced one of its kind; or nil
	field     string    // the value of RateLimit-Policy

	// In zones that count per client, what clients share of each limit.
	networks  *limitSet // all those of a network that are not verified
	elsewhere *limitSet // all that use a session away from where it was issued
}

// policy is a limit of a zone, ready for use.
type policy struct {
	engine.Limit
	zone    *zone
	set     *limitSet       // that it is one of
	name    string          // in header fields, metrics and logs
	field   string          // the item of RateLimit-Policy
	item    string          // the item of RateLimit up to the value of r
	legacy  string          // the value of X-RateLimit-Limit
	shadow  bool            // it refuses nothing
	kind    string          // what its counts depend on besides the key; "" of what clients share
	of      *policy         // the client's own limit, where this is what clients share of it; else nil
	scaling *engine.Scaling // how it changes with the standing of its client; nil if it doesn't
	quota   bool            // it has the longest window of several: X-Quota-… are about it
	meter   meter.Limit
	past    *history.Meter // for the history; nil if there is none
}

// sets returns all limit sets of the zone: those of every tier on every site.
func (z *zone) sets() (sets []*limitSet) {
	for _, l := range append(slices.Collect(maps.Values(z.sites)), z.siteLimits) {
		for _, set := range append(slices.Collect(maps.Values(l.byTier)), l.own) {
			if set != nil {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

// all returns the limits of a client, and then those that it shares; those that are enforced, and
// then those that are not.
func (s *limitSet) all() (policies []*policy) {
	sets := []*limitSet{s}
	for _, shared := range []*limitSet{s.networks, s.elsewhere} {
		if shared != nil {
			sets = append(sets, shared)
		}
	}
	for _, set := range sets {
		policies = append(policies, set.policies...)
	}
	for _, set := range sets {
		policies = append(policies, set.shadows...)
	}
	return policies
}

// setsByTier returns what clients of the zone can be held to, in the order of sites and
// tiers.
func (z *zone) setsByTier(tiers []string) (sets []tierSet) {
	sites := []siteLimits{z.siteLimits}
	for _, site := range slices.Sorted(maps.Keys(z.sites)) {
		sites = append(sites, z.sites[site])
	}
	for _, limits := range sites {
		if limits.own != nil {
			sets = append(sets, tierSet{"", limits.own})
		}
		for _, tier := range tiers {
			if set := limits.byTier[tier]; set != nil {
				sets = append(sets, tierSet{tier, set})
			}
		}
	}
	return sets
}

// perText returns what the zone counts by, as in a Caddyfile.
func (z *zone) perText() string {
	switch {
	case z.per != perKey:
		return z.per
	case z.Key == "":
		return perEveryone
	}
	return perKey + " " + z.Key
}

// tierSet is the limits of a tier, or of all clients if the tier is "".
type tierSet struct {
	tier string
	set  *limitSet
}

// The kinds of places where a key may be.
const (
	fromHeader      = "header"
	fromBearer      = "bearer"
	fromQuery       = "query"
	fromPlaceholder = "placeholder"
	fromCookie      = "cookie" // which is configured as a placeholder
)

// What can be done about a key that is missing or unknown.
const (
	keyDeny    = "deny"
	keyDefault = "default"
)
