package tally

import (
	"context"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Zones implements operator.Service.
func (s running) Zones(context.Context) ([]operator.Zone, error) {
	app := s.config()
	if app == nil {
		return nil, nil
	}
	var keys map[storage.LimitID]int64
	if h := app.Instance.Load(); h != nil {
		keys = h.Engine.KeyCounts()
	}
	return describeZones(app, keys), nil
}

// describeZones describes the zones of all handlers, given how many keys each limit counts.
// Those of one name, which count together, are one.
func describeZones(a *enforce.Config, keys map[storage.LimitID]int64) (zones []operator.Zone) {
	var names []string
	same := make(map[string][]*enforce.Zone)
	for _, z := range a.AllZones {
		if same[z.Name] == nil {
			names = append(names, z.Name)
		}
		same[z.Name] = append(same[z.Name], z)
	}
	for _, name := range names {
		zones = append(zones, describeZone(same[name], a.Tiers, keys))
	}
	return zones
}

// describeZone describes zones of one name. A limit that counts on several sites has the keys
// of all of them.
func describeZone(zones []*enforce.Zone, tiers []string, keys map[storage.LimitID]int64) operator.Zone {
	told := operator.Zone{Name: zones[0].Name, Per: zones[0].PerText(), Limits: []operator.Limit{}}
	counted := make(map[string]bool) // those of one name count as one
	ids := make(map[int][]storage.LimitID)
	for _, z := range zones {
		for _, t := range z.SetsByTier(tiers) {
			for i, p := range t.Set.All() {
				limit := describeLimit(p, t.Tier)
				at := slices.IndexFunc(told.Limits, limit.IsSame)
				if at < 0 {
					at = len(told.Limits)
					told.Limits = append(told.Limits, limit)
				}
				if !slices.Contains(ids[at], p.ID) {
					ids[at] = append(ids[at], p.ID)
					told.Limits[at].Keys += keys[p.ID]
				}
				if !counted[p.Name] {
					counted[p.Name] = true
					addCounts(&told.Counts, limit, i == 0)
				}
			}
		}
	}
	for i, z := range zones {
		refused, wouldRefuse := z.Meter.Totals()
		if i == 0 {
			told.Refused = refused + told.Banned
		}
		told.WouldRefuse = max(told.WouldRefuse, wouldRefuse) // zones without a shadow limit have none
	}
	told.Shadow = !slices.ContainsFunc(zones, (*enforce.Zone).IsEnforced)
	return told
}

// addCounts adds those of a limit to those of its zone. Each limit of the zone counts what
// passes, and who is banned; only one counts any other refusal. All that a shadow limit counts
// passes.
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

// limitsOf returns the limits of some zones by what they are stored under, which limits of
// several tiers share if they differ only in their amounts.
func (a config) limitsOf(zones []*enforce.Zone) map[storage.LimitID][]tierLimit {
	limits := make(map[storage.LimitID][]tierLimit)
	for _, z := range zones {
		for _, s := range z.SetsByTier(a.Tiers) {
			for _, p := range s.Set.All() {
				limits[p.ID] = append(limits[p.ID], tierLimit{p, s.Tier})
			}
		}
	}
	return limits
}

// applied returns the one of some limits that was applied to a key. If none of them was, since
// it was made smaller for the client, it is the first, without a tier unless all have that.
func applied(limits []tierLimit, last *engine.Limit) tierLimit {
	of := limits[0]
	for _, l := range limits {
		if l.Limit.Limit == last.Limit {
			return l
		}
		if l.tier != of.tier {
			of.tier = ""
		}
	}
	return of
}

// describeLimit describes a limit of a tier.
func describeLimit(p *enforce.Policy, tier string) operator.Limit {
	return operator.Limit{
		Name: p.Name, Text: enforce.LimitText(p.Limit.Limit), Tier: tier,
		Algorithm: p.Algorithm().String(), Amount: p.Amount(), Capacity: p.Capacity(), Window: operator.SecondsOf(p.Window()),
		Shadow: p.Shadow, Counts: p.Meter.Counts(),
	}
}

// totals returns what was decided since the process began.
func (a config) totals() operator.Totals {
	totals := operator.Totals{At: time.Now().UTC(), Zones: make(map[string]operator.Counts)}
	for _, zone := range describeZones(a.Config, nil) {
		totals.Zones[zone.Name] = zone.Counts
		totals.Counts.Add(zone.Counts)
	}
	rules := meter.NewRules()
	totals.Counts.Add(rules.Counts())
	return totals
}
