package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/listener"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Zones implements operator.Service.
func (r running) Zones(context.Context) ([]operator.Zone, error) {
	cfg := r.config()
	if cfg == nil {
		return nil, nil
	}
	var keys map[storage.LimitID]int64
	if inst := cfg.Instance.Load(); inst != nil {
		keys = inst.Engine.KeyCounts()
	}
	return describeZones(cfg, keys), nil
}

// describeZones describes the zones of all handlers. keys has the number of keys of each limit.
// Zones with the same name count together and are merged.
func describeZones(cfg *enforce.Config, keys map[storage.LimitID]int64) (zones []operator.Zone) {
	var names []string
	same := make(map[string][]*enforce.Zone)
	for _, z := range cfg.AllZones {
		if same[z.Name] == nil {
			names = append(names, z.Name)
		}
		same[z.Name] = append(same[z.Name], z)
	}
	for _, name := range names {
		zone := describeZone(same[name], cfg.Tiers, keys)
		zone.When = describeConditions(same[name], cfg.Now())
		zones = append(zones, zone)
	}
	return zones
}

// describeZone describes zones of one name. A limit that counts on several sites has the keys of
// all of them.
func describeZone(zones []*enforce.Zone, tiers []string, keys map[storage.LimitID]int64) operator.Zone {
	zone := operator.Zone{Name: zones[0].Name, Per: zones[0].PerText(), Limits: []operator.Limit{}}
	counted := make(map[string]bool) // limits of one name count as one
	ids := make(map[int][]storage.LimitID)
	for _, z := range zones {
		for _, t := range z.SetsByTier(tiers) {
			for i, p := range t.Set.All() {
				limit := describeLimit(p, t.Tier)
				index := slices.IndexFunc(zone.Limits, limit.IsSame)
				if index < 0 {
					index = len(zone.Limits)
					zone.Limits = append(zone.Limits, limit)
				}
				if !slices.Contains(ids[index], p.ID) {
					ids[index] = append(ids[index], p.ID)
					zone.Limits[index].Keys += keys[p.ID]
				}
				if !counted[p.Name] {
					counted[p.Name] = true
					addCounts(&zone.Counts, limit, i == 0)
				}
			}
		}
	}
	for _, z := range zones {
		for i, p := range z.BeforeTLS {
			if p == nil {
				continue
			}
			limit := describeLimit(p, "")
			switch listener.Banned + listener.Outcome(i) {
			case listener.Banned:
				zone.Allowed, zone.Banned = limit.Allowed, limit.Banned
				continue
			case listener.TooManyOpen:
				limit.Text, limit.Algorithm, limit.Window = fmt.Sprintf("%d connections", limit.Amount), "concurrent", 0
			}
			if !slices.ContainsFunc(zone.Limits, limit.IsSame) {
				zone.Limits = append(zone.Limits, limit)
			}
		}
	}
	for i, z := range zones {
		refused, wouldRefuse := z.Meter.Totals()
		if i == 0 {
			zone.Refused = refused + zone.Banned
		}
		zone.WouldRefuse = max(zone.WouldRefuse, wouldRefuse) // zones without a shadow limit have none
	}
	for _, z := range zones {
		if c := z.Concurrency; c != nil &&
			!slices.ContainsFunc(zone.Limits, func(l operator.Limit) bool { return l.Name == c.Policy.Name }) {
			limit := describeLimit(c.Policy, "")
			limit.Text, limit.Algorithm, limit.Window, limit.Keys = fmt.Sprintf("%d concurrent",
				c.Most), "concurrent", 0, int64(c.Gate.Len())
			zone.Limits = append(zone.Limits, limit)
			if len(zone.Limits) == 1 {
				zone.Allowed = limit.Allowed
			}
		}
	}
	zone.Shadow = !slices.ContainsFunc(zones, (*enforce.Zone).IsEnforced)
	return zone
}

// describeConditions describes the distinct conditions of zones of one name.
func describeConditions(zones []*enforce.Zone, now int64) (all []operator.Condition) {
	for _, z := range zones {
		for _, s := range z.When {
			c := operator.Condition{Text: s.Text, Holds: s.On(now)}
			if since := s.Since(); since != 0 {
				c.Since = new(time.Unix(0, since).UTC().Truncate(time.Second))
			}
			index := slices.IndexFunc(all, func(other operator.Condition) bool { return other.Text == c.Text })
			if index < 0 {
				all = append(all, c)
			} else if c.Holds {
				all[index] = c
			}
		}
	}
	return all
}

// addCounts adds the counts of a limit to its zone's. Every limit of the zone counts passing
// requests and those of banned clients; only one counts any other refusal. All requests that a
// shadow limit counts pass.
func addCounts(to *operator.Counts, l operator.Limit, first bool) {
	to.Blocked += l.Blocked
	if first {
		to.Allowed += l.Allowed + l.WouldRefuse
		to.Banned += l.Banned
	}
}

// tierLimit is a limit of a tier, or of all clients if the tier is "".
type tierLimit struct {
	*enforce.Policy
	tier string
}

// limitsOf returns the limits of some zones by their IDs in the store. Limits of several tiers
// share an ID if they differ only in their amounts.
func (cfg runningConfig) limitsOf(zones []*enforce.Zone) map[storage.LimitID][]tierLimit {
	limits := make(map[storage.LimitID][]tierLimit)
	for _, z := range zones {
		for _, s := range z.SetsByTier(cfg.Tiers) {
			for _, p := range s.Set.All() {
				limits[p.ID] = append(limits[p.ID], tierLimit{p, s.Tier})
			}
		}
	}
	return limits
}

// penaltyIn returns the penalty of limits with one ID, or nil: tiers share it.
func penaltyIn(limits []tierLimit) *engine.Penalty {
	for _, l := range limits {
		if l.Penalty != nil {
			return l.Penalty
		}
	}
	return nil
}

// applied returns the limit that was applied to a key. If none was, because it was changed for the client, it returns
// the first one. It has no tier if limits of several tiers are alike.
func applied(limits []tierLimit, last *engine.Limit) tierLimit {
	alike := slices.DeleteFunc(slices.Clone(limits), func(l tierLimit) bool { return l.Rate != last.Rate })
	if len(alike) == 0 {
		alike = limits
	}
	first := alike[0]
	for _, l := range alike {
		if l.tier != first.tier {
			first.tier = ""
		}
	}
	return first
}

// describeLimit describes a limit of a tier.
func describeLimit(p *enforce.Policy, tier string) operator.Limit {
	return operator.Limit{
		Name: p.Name, Text: p.Text(), Tier: tier,
		Algorithm: p.Algorithm().String(), Amount: p.Amount(), Capacity: p.Capacity(),
		Window: operator.SecondsOf(p.Window()),
		Shadow: p.Shadow, Counts: p.Meter.Counts(),
	}
}

// Totals returns the requests, each once, and the decisions of zones since the process began.
func (cfg runningConfig) Totals() operator.Totals {
	requests := meter.NewRequests()
	totals := operator.Totals{At: time.Now().UTC(), Counts: requests.Counts(), Zones: make(map[string]operator.Counts)}
	for _, zone := range describeZones(cfg.Config, nil) {
		totals.Zones[zone.Name] = zone.Counts
	}
	return totals
}

// defaultKeys is the default number of listed keys.
const defaultKeys = 20

// Keys implements operator.Service.
func (r running) Keys(_ context.Context, q operator.KeysQuery) ([]operator.Key, error) {
	app, inst, err := r.instanceInUse()
	if err != nil {
		return nil, err
	}
	zones, err := app.zonesNamed(q.Zone)
	if err != nil {
		return nil, err
	}
	limits := app.limitsOf(zones)
	wanted := engine.KeysQuery{
		Match: func(id storage.LimitID, _ []byte) bool {
			return limits[id] != nil && !(q.Blocked && limits[id][0].Shadow)
		},
		Penalty: func(id storage.LimitID) *engine.Penalty { return penaltyIn(limits[id]) },
		Blocked: q.Blocked, N: min(cmp.Or(q.N, defaultKeys), operator.MaxItems),
	}
	if q.By == operator.ByRefused {
		wanted.Order = engine.ByRefused
	}
	list, now := []operator.Key{}, time.Now()
	for _, k := range inst.Engine.Keys(wanted) {
		limits := limits[k.Limit.ID]
		limit := applied(limits, k.Limit)
		listed := listedKey(k, limit, now)
		listed.Tag = inst.Names.Tag(k.Key)
		if limit.tier != limits[0].tier && limit.tier == "" && limit.Rate != k.Limit.Rate { // it isn't known which tier's
			listed.Units = ""
		}
		list = append(list, listed)
	}
	if q.By == operator.ByRefused {
		slices.SortStableFunc(list, func(a, b operator.Key) int {
			return cmp.Or(cmp.Compare(refusedOf(b), refusedOf(a)), cmp.Compare(b.Refused, a.Refused))
		})
	}
	return list, nil
}

// refusedOf returns how many requests of a key were refused. A shadow limit refuses none.
func refusedOf(k operator.Key) int64 {
	if k.Shadow {
		return 0
	}
	return k.Refused
}

// listedKey describes a key that a limit counts.
func listedKey(k engine.KeyState, p tierLimit, now time.Time) operator.Key {
	key := operator.Key{
		Zone: p.Zone.Name, Limit: p.Name, Shadow: p.Shadow, Tier: p.tier, Kind: identity.KeyKind(k.Key), Client: targetOf(k.Key),
		Text: cmp.Or(identity.KeyText([]byte(k.Key)), "all together"), Units: p.Text(),
		Used: k.Used, Amount: k.Limit.Capacity(), Refused: k.Refused,
	}
	if k.Blocked > 0 {
		key.BlockedUntil = ends(now.Add(k.Blocked))
	}
	return key
}
