package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

const firstInRoute = "rate_limit above it in a route block; or, if there is a global option order for rate_limit, leave that out"

// checkReach asks whether requests can reach a handler, its zones and its challenge.
func checkReach(s *survey) (found []Advice) {
	for _, p := range s.places {
		if p.handler == nil {
			continue
		}
		switch {
		case p.Hidden != "":
			found = append(found, p.handler.advice(fmt.Sprintf("this handler never runs: %s before it answers every request", p.Hidden), firstInRoute))
		case p.InErrors:
			found = append(found, p.handler.advice("this handler is in handle_errors, where it sees only requests that have failed: all others pass without a limit",
				"rate_limit outside of handle_errors; count status 404 in a zone counts failed requests"))
		case p.Leavings() != "":
			found = append(found, p.handler.advice(fmt.Sprintf("%s before this handler answers, and nothing behind it does: what is answered is not limited", p.Leavings()), firstInRoute))
		default:
			for _, z := range p.zones {
				found = append(found, p.checkZoneReach(z)...)
			}
			found = append(found, p.checkOptionReach()...)
		}
	}
	return slices.Concat(found, s.checkWrapped(), s.checkUnused(), s.checkPuzzles(), checkIdleBan(s), s.checkObedience())
}

// checkWrapped finds servers that Caddy doesn't give the listener wrapper that is written for their port: an option
// `servers` with an address is for servers that listen at exactly this one.
func (s *survey) checkWrapped() (found []Advice) {
	portOf := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	warned := make(map[*caddyhttp.Server]bool)
	for _, p := range s.places {
		server := p.view.Server
		if p.handler == nil || warned[server] || slices.ContainsFunc(p.handler.WrappedAt, func(at string) bool { return slices.Contains(server.Listen, at) }) {
			continue
		}
		for _, at := range p.handler.WrappedAt {
			i := slices.IndexFunc(server.Listen, func(address string) bool { return portOf(address) == portOf(at) })
			if i >= 0 && !warned[server] {
				warned[server] = true
				found = append(found, Advice{Server: server.Listen, Fix: "servers " + server.Listen[i] + ", or servers without an address",
					Problem: fmt.Sprintf("servers %s: its listener wrapper rate_limit is not for this server, which listens at %s", at, server.Listen[i])})
			}
		}
	}
	return found
}

// checkZoneReach finds a zone whose requests never arrive, or are answered before or never.
func (p *place) checkZoneReach(z *Zone) []Advice {
	unanswered := len(z.MatcherSetsRaw) > 0
	for _, set := range z.MatcherSetsRaw {
		requests := routing.NewRequests(set)
		if why := p.Misses(requests); why != "" {
			return []Advice{z.advice(fmt.Sprintf("match: the zone never sees %s: %s", requests, why), "the zone into a rate_limit that sees them: before it, or without its matcher")}
		}
		unanswered = unanswered && p.Unanswered(requests)
	}
	if unanswered {
		r := routing.NewRequests(z.MatcherSetsRaw[0])
		return []Advice{z.advice(fmt.Sprintf("match: nothing behind this handler answers %s: the zone needs the paths as clients send them", r), "the whole path, such as match "+r.String()+" with what handle_path removes before it")}
	}
	if by, path := p.Passed(); by != "" && len(z.MatcherSetsRaw) == 0 && len(z.When) == 0 {
		return []Advice{z.advice(fmt.Sprintf("the zone never sees %s: %s before it answers them", path, by), firstInRoute)}
	}
	return nil
}

// checkOptionReach finds traps and costs of requests that never arrive, and options that take all requests
// of a zone.
func (p *place) checkOptionReach() (found []Advice) {
	for _, o := range p.sets() {
		requests := routing.NewRequests(o.ModuleMap)
		within := func(set caddy.ModuleMap) bool { return !routing.NewRequests(set).IsWithin(requests) }
		excluded := func(set caddy.ModuleMap) bool { return !routing.NewRequests(set).Excludes(requests) }
		switch why := p.Misses(requests); {
		case o.option == "trap" && why != "":
			found = append(found, o.advice(fmt.Sprintf("trap: it never sees %s: %s", requests, why), "the trap into a rate_limit without a matcher"))
		case o.option == "cost" && len(o.zone.MatcherSetsRaw) > 0 && !slices.ContainsFunc(o.zone.MatcherSetsRaw, excluded):
			found = append(found, o.advice(fmt.Sprintf("cost: the zone never has %s, because its match doesn't", requests), "match with them, or no cost for them"))
		case o.option == "exempt" || o.option == "trap":
			for _, z := range p.zones {
				if len(z.MatcherSetsRaw) > 0 && !slices.ContainsFunc(z.MatcherSetsRaw, within) {
					found = append(found, z.advice(fmt.Sprintf("match: all requests of the zone are in %s %s", o.option, requests), "other paths into one of them"))
				}
			}
		}
	}
	return found
}

// checkUnused finds options for all zones that no zone uses.
func (s *survey) checkUnused() (found []Advice) {
	unused := func(isThere bool, uses func(z sitedZone) bool, problem, fix string) {
		if isThere && len(s.zones) > 0 && !slices.ContainsFunc(s.zones, uses) {
			found = append(found, Advice{Source: s.app.Source, Problem: problem, Fix: fix})
		}
	}
	unused(len(s.app.Tiers) > 0, func(z sitedZone) bool { return z.Tiers || z.Tier != "" }, "tier: no zone has tiers or tier, so that its limits are nobody's", "tiers into a zone, in the place of limit")
	unused(s.app.APIKeys != nil, func(z sitedZone) bool { return z.looksAtKeys() }, "api_keys: no zone asks for one", "per api_key into a zone")
	return found
}

// checkOwnPages finds a dashboard that doesn't get the requests for its own pages.
func (p *place) checkOwnPages() []Advice {
	if by := p.Serves(); by != "" && p.isUnmatched() {
		return []Advice{{Source: p.dashboard.Source, Problem: "rate_limit_dashboard: it answers all requests of its site: " + by + " behind it never runs", Fix: "handle_path /limits/* {, and the dashboard in it"}}
	}
	page := routing.Requests{Methods: []string{"GET"}, Paths: []string{strings.TrimSuffix(p.Within(), "/") + "/clients"}}
	if p.dashboard.Writable {
		page.Methods[0] = "POST"
	}
	if p.Misses(page) == "" {
		return nil
	}
	return []Advice{{Source: p.dashboard.Source, Problem: fmt.Sprintf("rate_limit_dashboard: it never sees %s: %s", page, p.Misses(page)), Fix: "handle_path /limits/* {, and the dashboard in it"}}
}

// isUnmatched reports whether all requests of a site come to the place.
func (p *place) isUnmatched() bool {
	return !slices.ContainsFunc(p.Around, func(route []routing.Requests) bool {
		return !slices.ContainsFunc(route, func(r routing.Requests) bool { return !r.Partial && r.Methods == nil && r.Paths == nil })
	})
}

// checkPuzzles finds challenges that are never shown, because they are only for pages that browsers request
// with GET, and those whose solutions no handler of their site gets.
func (s *survey) checkPuzzles() (found []Advice) {
	solution := routing.Requests{Methods: []string{"POST"}, Paths: []string{defaultSessionPath + "*"}}
	if s.app.Session != nil && s.app.Session.Path != "" {
		solution.Paths[0] = s.app.Session.Path + "*"
	}
	serves := func(site string) bool {
		return slices.ContainsFunc(s.places, func(p *place) bool { return p.handler != nil && p.Site == site && p.Misses(solution) == "" })
	}
	mayBeGET := func(set caddy.ModuleMap) bool {
		methods := routing.NewRequests(set).Methods
		return methods == nil || slices.Contains(methods, "GET")
	}
	for _, z := range s.zones {
		if z.OnExceeded != onExceededChallenge {
			continue
		}
		if s.app.Session != nil && !serves(z.site) {
			found = append(found, z.advice(fmt.Sprintf("on_exceeded: the puzzle sends %s, which no rate_limit of this site sees: nobody can solve it", solution), "rate_limit without a matcher, and the matcher into its zone, after match"))
		}
		if len(z.MatcherSetsRaw) > 0 && !slices.ContainsFunc(z.MatcherSetsRaw, mayBeGET) {
			found = append(found, z.advice("on_exceeded: nobody is ever challenged, because only pages that browsers call up with GET are: its requests are refused",
				"on_exceeded refuse; or match the pages that lead there, such as match GET /*"))
		}
	}
	return found
}

// obeyed returns an option that handlers without a zone obey as well, or "".
func (s *survey) obeyed() string {
	switch {
	case s.app.RulesFile != "":
		return "rules_file"
	case len(s.app.BlockLists) > 0:
		return "block_list"
	case s.app.Ban != nil:
		return "ban"
	}
	return ""
}

// checkObedience finds sites without a handler beside others with one, if the app has options for all.
func (s *survey) checkObedience() []Advice {
	option := s.obeyed()
	limited, serving := make(map[string]bool), make(map[string]bool)
	for _, v := range s.views {
		for _, p := range v.Places {
			_, isOurs := p.Module.(interface{ config() *Handler })
			limited[p.Site] = limited[p.Site] || isOurs
			serving[p.Site] = serving[p.Site] || p.Answers() == "reverse_proxy" || p.Answers() == "file_server"
		}
	}
	without := slices.DeleteFunc(slices.Sorted(maps.Keys(serving)), func(site string) bool { return site == "" || !serving[site] || limited[site] })
	if option == "" || len(without) == 0 {
		return nil
	}
	return []Advice{{Source: s.app.Source, Problem: fmt.Sprintf("%s: sites without rate_limit don't obey it: %s", option, without[0]), Fix: "rate_limit in each site, also without a zone"}}
}

// checkIdleBan finds a ban that can't occur, and notifications of bans that don't.
func checkIdleBan(s *survey) (found []Advice) {
	a, traps := s.app, s.traps || s.app.Session != nil
	apply := func(z sitedZone) bool { return z.wantsClients() && z.Ban == nil && !z.wantsShadow() }
	bans := a.Ban != nil && (traps || slices.ContainsFunc(s.zones, apply))
	if a.Ban != nil && !bans {
		found = append(found, Advice{Source: a.Source, Problem: "ban: nobody is banned, because no zone counts per client or per api_key, and there is no trap",
			Fix: "per client in a zone whose limits lead to bans"})
	}
	for _, p := range s.places {
		bans = bans || p.handler != nil && slices.ContainsFunc(p.handler.Traps, func(t *Trap) bool { return t.Ban != 0 })
	}
	bans = bans || slices.ContainsFunc(s.zones, func(z sitedZone) bool { return z.Ban != nil && !z.wantsShadow() })
	if !bans && slices.ContainsFunc(a.Notify, func(n *Notify) bool { return len(n.On) == 1 && n.On[0] == notify.Ban }) {
		found = append(found, Advice{Source: a.Source, Problem: "notify: on ban: no client is ever banned for what it does", Fix: "ban after 5 violations in 10m for 1h beside it, and per client in a zone"})
	}
	return found
}

// checkShut finds a dashboard that can never admit a request.
func (dash *Dashboard) checkShut(places []*place) []Advice {
	shut := func(p *place) bool {
		return len(dash.AllowRaw) == 0 && !p.before.Anything && !p.before.Has(userID)
	}
	if !slices.ContainsFunc(places, shut) {
		return nil
	}
	return []Advice{{Source: dash.Source, Problem: "rate_limit_dashboard: everybody is answered with 403: nothing before this handler authenticates users",
		Fix: "basic_auth before it, for the same paths; or allow with a matcher"}}
}
