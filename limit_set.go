package tally

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// limitSet is the limits that a client has in a zone, which are the zone's own or
// those of the client's tier.
type limitSet struct {
	policies []*policy
	field    string // the value of RateLimit-Policy

	// In zones that count per client, what clients share of each limit.
	networks  *limitSet // all those of a network that are not verified
	elsewhere *limitSet // all that use a session away from where it was issued
}

// policy is a limit of a zone, ready for use.
type policy struct {
	engine.Limit
	zone   *Zone
	set    *limitSet        // that it is one of
	name   string           // in header fields, metrics and logs
	field  string           // the item of RateLimit-Policy
	item   string           // the item of RateLimit up to the value of r
	legacy string           // the value of X-RateLimit-Limit
	of     *policy          // the client's own limit, where this is what clients share of it; else nil
	fair   *engine.Fairness // how it changes with the standing of its client; nil if it doesn't
	quota  bool             // X-Quota-… tell of it: it has the longest window of several
	meter  limitMeter
}

// newLimitSet compiles limits for a zone. Their counts are told apart by the
// name of the zone and what the limits are, and not by whose they are: a client
// that changes its tier keeps its counts where the tiers' limits differ in their
// amounts only.
func newLimitSet(z *Zone, site string, limits []Limit) (*limitSet, error) {
	set := new(limitSet)
	names := make(map[string]bool)
	same := make(map[Limit]uint64)
	for i, l := range limits {
		arithmetic, err := l.compile()
		if err != nil {
			return nil, fmt.Errorf("limit: %w", err)
		}
		kind := Limit{
			Algorithm: arithmetic.Algorithm().String(), Window: l.Window,
			Slots: int(arithmetic.Slots()), Timezone: l.Timezone,
		}
		name := limitName(z.Name, i, l)
		p := newPolicy(name, z.app.limit(limitID(z.countedAs(site), kind, same[kind]), arithmetic))
		p.zone, p.set = z, set
		p.fair = z.app.fairness(z, &p.Limit)
		same[kind]++
		if names[name] {
			return nil, fmt.Errorf("limit: two limits are named %q; name one of them otherwise with `name`", name)
		}
		names[name] = true
		set.policies = append(set.policies, p)
	}
	set.markQuota()
	set.field = joinFields(set.policies)
	if z.per == perClient {
		return set, set.addShared(z)
	}
	return set, nil
}

// markQuota marks the limit that has a longer window than all others.
func (s *limitSet) markQuota() {
	var longest, second time.Duration
	var of *policy
	for _, p := range s.policies {
		if w := p.Window(); w > longest {
			longest, second, of = w, longest, p
		} else {
			second = max(second, w)
		}
	}
	if second > 0 && second < longest {
		of.quota = true
	}
}

// joinFields returns the value of RateLimit-Policy for several limits.
func joinFields(policies []*policy) string {
	items := make([]string, len(policies))
	for i, p := range policies {
		items[i] = p.field
	}
	return strings.Join(items, ", ")
}

// limitName returns the name of the i-th limit of a zone.
func limitName(zone string, i int, l Limit) string {
	switch {
	case l.Name != "":
		return l.Name
	case i == 0:
		return zone
	}
	return zone + "-" + shortDuration(time.Duration(l.Window))
}

// shortDuration writes a duration without trailing zero parts: 24h, not 24h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// newPolicy prepares what is written about a limit into header fields.
func newPolicy(name string, limit engine.Limit) *policy {
	quoted := httpfield.String(name)
	p := &policy{
		Limit:  limit,
		name:   name,
		item:   quoted + ";r=",
		legacy: strconv.FormatInt(limit.Amount(), 10),
	}
	p.field = fmt.Sprintf("%s;q=%d;w=%d", quoted, limit.Amount(), httpfield.Seconds(limit.Window()))
	if limit.Capacity() != limit.Amount() {
		p.field += fmt.Sprintf(";burst=%d", limit.Capacity())
	}
	return p
}

// limit returns a limit that counts together with all others of its ID, however
// much their amounts differ: all of them have the same names for their keys.
func (a *App) limit(id storage.LimitID, l limiter.Limit) engine.Limit {
	if a == nil {
		return engine.Limit{ID: id, Limit: l} // it is only checked
	}
	if a.lasts == nil {
		a.lasts = make(map[storage.LimitID]*time.Duration)
	}
	if a.lasts[id] == nil {
		a.lasts[id] = new(time.Duration)
	}
	*a.lasts[id] = max(*a.lasts[id], l.Remembered())
	return engine.Limit{ID: id, Limit: l, Lasts: a.lasts[id]}
}

// provisionLimits compiles the limits, the zone's own or those of all tiers, for each
// site that counts on its own.
func (z *Zone) provisionLimits() (err error) {
	if err := z.checkLimits(); err != nil {
		return err
	}
	if z.sites == nil {
		z.siteLimits, err = z.compile("")
		return err
	}
	for site := range z.sites {
		if z.sites[site], err = z.compile(site); err != nil {
			return err
		}
	}
	return nil
}

// checkLimits checks that limits are given in one way.
func (z *Zone) checkLimits() error {
	tiers, peer := z.Tiers || z.Tier != "", z.Window != 0 || z.MaxEvents != 0
	switch {
	case z.Tiers && z.Tier != "":
		return errors.New("tiers and tier exclude one another; leave one out")
	case tiers && (len(z.Limits) > 0 || peer):
		return errors.New("tiers and limits of the zone's own exclude one another; a second zone can have them")
	case tiers && len(z.app.Tiers) == 0:
		return errors.New("tiers: no tier is configured: write a `tier` into the global option rate_limit")
	case z.Tiers && z.app.APIKeys == nil:
		return errors.New("tiers: clients have none without `api_keys` in the global option rate_limit")
	case z.DefaultTier != "" && z.Tier == "":
		return errors.New("default_tier belongs to tier, which is missing")
	case tiers:
		return z.checkTier()
	case len(z.Limits) > 0 && peer:
		return errors.New("limits and window/max_events exclude one another; write it as one more limit")
	case len(z.Limits) == 0 && len(z.effective) == 0:
		return errors.New("needs a limit, such as 5/1m")
	}
	return nil
}

// compile compiles the limits that the zone has on a site.
func (z *Zone) compile(site string) (l siteLimits, err error) {
	if !z.Tiers && z.Tier == "" {
		l.own, err = newLimitSet(z, site, append(z.Limits, z.effective...))
		return l, err
	}
	l.byTier = make(map[string]*limitSet)
	for _, t := range z.app.Tiers {
		if l.byTier[t.Name] = nil; t.Unlimited {
			continue
		}
		if l.byTier[t.Name], err = newLimitSet(z, site, t.Limits); err != nil {
			return l, fmt.Errorf("tier %q: %w", t.Name, err)
		}
	}
	return l, nil
}

// checkTier checks the names of tiers that the zone gives.
func (z *Zone) checkTier() error {
	for _, name := range []string{z.Tier, z.DefaultTier} {
		if len(placeholder.Names(name)) > 0 && name == z.Tier {
			if err := placeholder.Check(name); err != nil {
				return fmt.Errorf("tier: %w", err)
			}
		} else if name != "" && z.app.tier(name) == nil {
			return fmt.Errorf("tier: %w", z.app.unknownTier(name))
		}
	}
	return nil
}

// sets returns all that clients of the zone can be held to.
func (z *Zone) sets() (sets []*limitSet) {
	for _, l := range append(slices.Collect(maps.Values(z.sites)), z.siteLimits) {
		for _, set := range append(slices.Collect(maps.Values(l.byTier)), l.own) {
			if set != nil {
				sets = append(sets, set)
			}
		}
	}
	return sets
}

// limitID names a limit by all that its counts depend on. nth tells limits apart
// that are alike in all of it.
func limitID(zone string, kind Limit, nth uint64) storage.LimitID {
	id := binary.BigEndian.AppendUint64(nil, uint64(len(zone)))
	id = append(id, zone...)
	id = append(id, kind.Algorithm...)
	for _, n := range []uint64{uint64(kind.Window), uint64(kind.Slots), nth} {
		id = binary.BigEndian.AppendUint64(id, n)
	}
	id = append(id, kind.Timezone...)
	return storage.LimitID(xxhash.Sum64(id))
}
