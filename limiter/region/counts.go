package region

import (
	"cmp"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Component is the only writer of a count: a machine of a region, since its last start.
type Component struct {
	Region  string
	Machine int64
}

// Counts are the admitted units of one key of one limit by component. The zero value is empty. It
// is not safe for concurrent use.
type Counts struct {
	parts []part // at most maxParts
}

// part is the number of units that one component has admitted in one group.
type part struct {
	group, units, expires int64
	component             Component
}

// maxParts bounds the memory of one key, regardless of the data in an exchange.
const maxParts = 4096

// Take stores the count of a component in a group, which counts until it expires, and returns by
// how much it has grown. It ignores a count that is not larger than before.
func (c *Counts) Take(component Component, group, units, expires int64) (grew int64) {
	units = min(units, limiter.MaxAmount)
	for i := range c.parts {
		p := &c.parts[i]
		if p.group == group && p.component == component {
			if grew = units - p.units; grew <= 0 {
				return 0
			}
			p.units = units
			return grew
		}
	}
	if units <= 0 || len(c.parts) >= maxParts {
		return 0
	}
	c.parts = append(c.parts, part{group, units, expires, component})
	return units
}

// Trim removes the parts that have expired at now, and reports whether any are left.
func (c *Counts) Trim(now int64) (left bool) {
	c.parts = slices.DeleteFunc(c.parts, func(p part) bool { return p.expires <= now })
	return len(c.parts) > 0
}

// Split returns the units of each group, in ascending order: the units of a region, and the units
// of all others.
func (c *Counts) Split(home string) (own, foreign []limiter.Slot) {
	for _, p := range c.parts {
		if p.component.Region == home {
			own = append(own, limiter.Slot{Index: p.group, Used: p.units})
		} else {
			foreign = append(foreign, limiter.Slot{Index: p.group, Used: p.units})
		}
	}
	return Sum(own), Sum(foreign)
}

// Users returns the machines of a region with units that have not expired at now, in ascending
// order.
func (c *Counts) Users(home string, now int64) (machines []int64) {
	for _, p := range c.parts {
		if p.component.Region == home && p.expires > now {
			machines = append(machines, p.component.Machine)
		}
	}
	slices.Sort(machines)
	return slices.Compact(machines)
}

// Sum returns the units of each group in ascending order, without repeats.
func Sum(lists ...[]limiter.Slot) []limiter.Slot {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b limiter.Slot) int { return cmp.Compare(a.Index, b.Index) })
	sum := all[:0]
	for _, s := range all {
		if last := len(sum) - 1; last >= 0 && sum[last].Index == s.Index {
			sum[last].Used = min(sum[last].Used+s.Used, limiter.MaxAmount)
			continue
		}
		sum = append(sum, s)
	}
	return sum
}

// Own is the number of units that this machine has admitted of one key of one limit, by group, and
// has published. The zero value is empty. It is not safe for concurrent use.
type Own struct {
	groups []ownGroup // in ascending order
}

type ownGroup struct{ group, units, published int64 }

// Add counts units admitted in a group.
func (o *Own) Add(group, units int64) {
	i, found := slices.BinarySearchFunc(o.groups, group,
		func(g ownGroup, group int64) int { return cmp.Compare(g.group, group) })
	if !found {
		o.groups = slices.Insert(o.groups, i, ownGroup{group: group})
	}
	o.groups[i].units = min(o.groups[i].units+units, limiter.MaxAmount)
}

// Units returns the admitted units of each group, in ascending order.
func (o *Own) Units() []limiter.Slot {
	units := make([]limiter.Slot, len(o.groups))
	for i, g := range o.groups {
		units[i] = limiter.Slot{Index: g.group, Used: g.units}
	}
	return units
}

// Unpublished returns the groups that have grown since they were published, with their current
// units.
func (o *Own) Unpublished() (units []limiter.Slot) {
	for _, g := range o.groups {
		if g.units > g.published {
			units = append(units, limiter.Slot{Index: g.group, Used: g.units})
		}
	}
	return units
}

// Published notes that units of a group were published.
func (o *Own) Published(units limiter.Slot) {
	for i := range o.groups {
		if g := &o.groups[i]; g.group == units.Index {
			g.published = max(g.published, units.Used)
		}
	}
}

// Unpublish notes that no unit is published any more.
func (o *Own) Unpublish() {
	for i := range o.groups {
		o.groups[i].published = 0
	}
}

// Trim removes the groups before the oldest, and reports whether any are left.
func (o *Own) Trim(oldest int64) (left bool) {
	o.groups = slices.DeleteFunc(o.groups, func(g ownGroup) bool { return g.group < oldest })
	return len(o.groups) > 0
}
