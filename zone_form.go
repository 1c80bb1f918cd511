package tally

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// isPeerForm reports whether the zone is written with `window` and `max_events`.
func (z *Zone) isPeerForm() bool {
	return len(z.Limits) == 0 && !z.Tiers && z.Tier == "" && (z.Per == "" || z.Window != 0 || z.MaxEvents != 0)
}

// hasOwnWords reports whether the zone uses options that mholt/caddy-ratelimit
// does not have.
func (z *Zone) hasOwnWords() bool {
	return len(z.Limits) > 0 || z.Tiers || z.Tier != "" || z.Per != "" || z.OnEmptyKey != "" ||
		z.Cost != "" || len(z.Costs) > 0 || z.MaxCost != 0 || z.Count != nil ||
		z.Scope != "" || z.DisableReputation || z.Ban != nil || z.PrefixCeiling != 0 || z.OnExceeded != "" || z.Shadow
}

// wantsClients reports whether a zone that isn't provisioned yet will count clients.
func (z *Zone) wantsClients() bool {
	return z.Per == enforce.PerClient || z.Per == enforce.PerAPIKey || z.Per == "" && z.Tiers
}

// ordered returns all zones of the handler in the order in which they are looked at.
func (h *Handler) ordered() ([]*Zone, error) { return orderedZones(h.Zones, h.RateLimits) }

// orderedZones returns all zones of a handler in the order in which they are looked at:
// those of `rate_limits` after the others, tightest first.
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
			return nil, caddyconf.AtSource(fmt.Errorf("zone %q: there are two of this name; make them one, or name one otherwise", z.Name), z.Source)
		}
		seen[z.Name] = true
	}
	return zones, nil
}

// rate returns the events per second of a zone in the form of `max_events` and
// `window`, for putting zones in order.
func (z *Zone) rate() float64 {
	if z == nil || z.Window <= 0 {
		return 0
	}
	return float64(z.MaxEvents) / time.Duration(z.Window).Seconds()
}
