package tally

import (
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

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
	zone    *Zone
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
