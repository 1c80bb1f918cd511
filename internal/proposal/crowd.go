package proposal

import (
	"context"
	"fmt"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// manyNetworks is the least number of addresses and of networks in a crowd that makes one zone worth it.
const manyNetworks = 100

// isMany reports whether clients are a crowd, whatever else is in the log: a limit per network can't bound them.
// Who has a large network of IPv4, of IPv6 or both is none.
func (c crowd) isMany() bool { return min(c[0], c[1]) >= manyNetworks && c[2] > 2 }

// isForCrowds reports whether a zone bounds all clients without a session together.
func (z *zone) isForCrowds() bool { return slices.Contains(z.lines, "on_exceeded challenge") }

// findCrowds adds to each site the recipes' zones against crowds that its log shows: many of the site's people ask
// for what the zone counts, and for hardly anything else. They decide nothing else.
func (d *draft) findCrowds(ctx context.Context, open func() (*accesslog.Merger, error)) error {
	for _, s := range d.sites {
		if !s.open || !s.traffic.all.crowd(d.people, nil).isMany() {
			continue
		}
		for _, p := range programs {
			for _, z := range p.zones {
				if z.isForCrowds() {
					s.add(z, p.recipe, p.recipe) // which keepCrowds makes a sentence of
				}
			}
		}
	}
	if zonesOf(d.sites) == 0 {
		return nil
	}
	session := withSession(d.file, d.text)
	if session == nil {
		for _, s := range d.sites {
			s.zones = nil
		}
		d.notes = append(d.notes, "Crowds are not looked for, because their zones need session in the global option rate_limit, which can't be put into this file: write it there first")
		return nil
	}
	if err := d.use(session); err != nil {
		return err
	}
	notes, before := d.notes, d.before
	d.settle(d.sites)
	asked := make(map[string]map[int]int64)
	if err := d.replay(ctx, open, func(l *replay.Limit, r *accesslog.Record, _ int64) {
		if asked[l.Zone] == nil {
			asked[l.Zone] = make(map[int]int64)
		}
		asked[l.Zone][d.people.id(r)]++
	}); err != nil {
		return err
	}
	for _, s := range d.sites {
		s.keepCrowds(asked, d.people)
	}
	if zonesOf(d.sites) == 0 {
		d.notes, d.before = notes, before // without what was about sessions
		return d.use(d.old)
	}
	return nil
}

// keepCrowds keeps those zones that a crowd asks for, beginning with that of the most networks: a client is in one.
func (s *site) keepCrowds(asked map[string]map[int]int64, log *people) {
	tried, all := s.zones, s.traffic.all.crowd(log, nil)
	for s.zones = nil; ; {
		var largest zone
		var most crowd
		var ids []int
		for _, z := range tried {
			crawling := s.crawling(asked[z.name], log)
			c := log.crowd(slices.Values(crawling))
			switch few := !c.isMany() || c.isFew(all); {
			case few && c[0] >= manyNetworks && len(s.zones) == 0:
				s.notes = append(s.notes,
					fmt.Sprintf(
						"has %s of few networks that ask for hardly anything but costly pages: docs/recipes/%s.md",
						wording.Counted(c[0], "client"), z.why))
			case !few && c[2] > most[2]:
				largest, most, ids = z, c, crawling
			}
		}
		if ids == nil {
			return
		}
		for _, id := range ids {
			log.known[id].crawls = true
		}
		largest.why = fmt.Sprintf("a crowd: %s of %s ask for hardly anything else: docs/recipes/%s.md",
			wording.Counted(most[0], "client"), wording.Counted(most[1], "network"), largest.why)
		s.zones = append(s.zones, largest)
	}
}

// crawling returns the people that ask for hardly anything else in the site.
func (s *site) crawling(asked map[int]int64, log *people) (ids []int) {
	for id, requests := range asked {
		if log.is(id) && 2*requests > s.traffic.all.by[id].requests {
			ids = append(ids, id)
		}
	}
	return ids
}
