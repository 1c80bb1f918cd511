package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

const firstInRoute = "rate_limit above it in a route block; or, if there is a global option order for rate_limit, leave that out"

// checkReach asks whether requests can reach a handler, its zones and its challenge.
func checkReach(s *config.Survey) (found []advice.Advice) {
	for _, p := range s.Places {
		if p.Handler == nil {
			continue
		}
		switch {
		case p.Hidden != "":
			found = append(found, p.Handler.Advice(fmt.Sprintf("this handler never runs: %s before it answers every request", p.Hidden), firstInRoute))
		case p.InErrors:
			found = append(found, p.Handler.Advice("this handler is in handle_errors, where it sees only requests that have failed: all others pass without a limit",
				"rate_limit outside of handle_errors; count status 404 in a zone counts failed requests"))
		case p.Leavings() != "":
			found = append(found, p.Handler.Advice(fmt.Sprintf("%s before this handler answers, and nothing behind it does: what is answered is not limited", p.Leavings()), firstInRoute))
		default:
			for _, z := range p.Zones {
				found = append(found, checkZoneReach(p, z)...)
			}
			found = append(found, checkOptionReach(p)...)
		}
	}
	return slices.Concat(found, checkWrapped(s), checkUnused(s), checkPuzzles(s), checkIdleBan(s), checkObedience(s))
}

// checkWrapped finds servers that Caddy doesn't give the listener wrapper that is written for their port: an option
// `servers` with an address is for servers that listen at exactly this one.
func checkWrapped(s *config.Survey) (found []advice.Advice) {
	portOf := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	warned := make(map[*caddyhttp.Server]bool)
	for _, p := range s.Places {
		server := p.View.Server
		if p.Handler == nil || warned[server] || slices.ContainsFunc(p.Handler.WrappedAt, func(at string) bool { return slices.Contains(server.Listen, at) }) {
			continue
		}
		for _, at := range p.Handler.WrappedAt {
			i := slices.IndexFunc(server.Listen, func(address string) bool { return portOf(address) == portOf(at) })
			if i >= 0 && !warned[server] {
				warned[server] = true
				found = append(found, advice.Advice{Server: server.Listen, Fix: "servers " + server.Listen[i] + ", or servers without an address",
					Problem: fmt.Sprintf("servers %s: its listener wrapper rate_limit is not for this server, which listens at %s", at, server.Listen[i])})
			}
		}
	}
	return found
}

// checkZoneReach finds a zone whose requests never arrive, or are answered before or never.
func checkZoneReach(p *config.Place, z *config.Zone) []advice.Advice {
	unanswered := len(z.MatcherSetsRaw) > 0
	for _, set := range z.MatcherSetsRaw {
		requests := routing.NewRequests(set)
		if why := p.Misses(requests); why != "" {
			return []advice.Advice{z.Advice(fmt.Sprintf("match: the zone never sees %s: %s", requests, why), "the zone into a rate_limit that sees them: before it, or without its matcher")}
		}
		unanswered = unanswered && p.Unanswered(requests)
	}
	if unanswered {
		r := routing.NewRequests(z.MatcherSetsRaw[0])
		return []advice.Advice{z.Advice(fmt.Sprintf("match: nothing behind this handler answers %s: the zone needs the paths as clients send them", r), "the whole path, such as match "+r.String()+" with what handle_path removes before it")}
	}
	if by, path := p.Passed(); by != "" && len(z.MatcherSetsRaw) == 0 && len(z.When) == 0 {
		return []advice.Advice{z.Advice(fmt.Sprintf("the zone never sees %s: %s before it answers them", path, by), firstInRoute)}
	}
	return nil
}

// checkOptionReach finds traps and costs of requests that never arrive, and options that take all requests
// of a zone.
func checkOptionReach(p *config.Place) (found []advice.Advice) {
	for _, o := range p.Sets() {
		requests := routing.NewRequests(o.ModuleMap)
		within := func(set caddy.ModuleMap) bool { return !routing.NewRequests(set).IsWithin(requests) }
		excluded := func(set caddy.ModuleMap) bool { return !routing.NewRequests(set).Excludes(requests) }
		switch why := p.Misses(requests); {
		case o.Option == "trap" && why != "":
			found = append(found, o.Advice(fmt.Sprintf("trap: it never sees %s: %s", requests, why), "the trap into a rate_limit without a matcher"))
		case o.Option == "cost" && len(o.Zone.MatcherSetsRaw) > 0 && !slices.ContainsFunc(o.Zone.MatcherSetsRaw, excluded):
			found = append(found, o.Advice(fmt.Sprintf("cost: the zone never has %s, because its match doesn't", requests), "match with them, or no cost for them"))
		case o.Option == "exempt" || o.Option == "trap":
			for _, z := range p.Zones {
				if len(z.MatcherSetsRaw) > 0 && !slices.ContainsFunc(z.MatcherSetsRaw, within) {
					found = append(found, z.Advice(fmt.Sprintf("match: all requests of the zone are in %s %s", o.Option, requests), "other paths into one of them"))
				}
			}
		}
	}
	return found
}

// checkUnused finds options for all zones that no zone uses.
func checkUnused(s *config.Survey) (found []advice.Advice) {
	unused := func(isThere bool, uses func(z config.SitedZone) bool, problem, fix string) {
		if isThere && len(s.Zones) > 0 && !slices.ContainsFunc(s.Zones, uses) {
			found = append(found, advice.Advice{Source: s.App.Source, Problem: problem, Fix: fix})
		}
	}
	unused(len(s.App.Tiers) > 0, func(z config.SitedZone) bool { return z.Tiers || z.Tier != "" }, "tier: no zone has tiers or tier, so that its limits are nobody's", "tiers into a zone, in the place of limit")
	unused(s.App.APIKeys != nil, func(z config.SitedZone) bool { return z.LooksAtKeys() }, "api_keys: no zone asks for one", "per api_key into a zone")
	return found
}

// checkOwnPages finds a dashboard that doesn't get the requests for its own pages.
func checkOwnPages(p *config.Place) []advice.Advice {
	if by := p.Serves(); by != "" && isUnmatched(p) {
		return []advice.Advice{{Source: p.Dashboard.Source, Problem: "rate_limit_dashboard: it answers all requests of its site: " + by + " behind it never runs", Fix: "handle_path /limits/* {, and the dashboard in it"}}
	}
	page := routing.Requests{Methods: []string{"GET"}, Paths: []string{strings.TrimSuffix(p.Within(), "/") + "/clients"}}
	if p.Dashboard.Writable {
		page.Methods[0] = "POST"
	}
	if p.Misses(page) == "" {
		return nil
	}
	return []advice.Advice{{Source: p.Dashboard.Source, Problem: fmt.Sprintf("rate_limit_dashboard: it never sees %s: %s", page, p.Misses(page)), Fix: "handle_path /limits/* {, and the dashboard in it"}}
}

// isUnmatched reports whether all requests of a site come to the place.
func isUnmatched(p *config.Place) bool {
	return !slices.ContainsFunc(p.Around, func(route []routing.Requests) bool {
		return !slices.ContainsFunc(route, func(r routing.Requests) bool { return !r.Partial && r.Methods == nil && r.Paths == nil })
	})
}

// checkPuzzles finds challenges that are never shown, because they are only for pages that browsers request
// with GET, and those whose solutions no handler of their site gets.
func checkPuzzles(s *config.Survey) (found []advice.Advice) {
	solution := routing.Requests{Methods: []string{"POST"}, Paths: []string{config.DefaultSessionPath + "*"}}
	if s.App.Session != nil && s.App.Session.Path != "" {
		solution.Paths[0] = s.App.Session.Path + "*"
	}
	serves := func(site string) bool {
		return slices.ContainsFunc(s.Places, func(p *config.Place) bool { return p.Handler != nil && p.Site == site && p.Misses(solution) == "" })
	}
	mayBeGET := func(set caddy.ModuleMap) bool {
		methods := routing.NewRequests(set).Methods
		return methods == nil || slices.Contains(methods, "GET")
	}
	for _, z := range s.Zones {
		if z.OnExceeded != config.OnExceededChallenge {
			continue
		}
		if s.App.Session != nil && !serves(z.Site) {
			found = append(found, z.Advice(fmt.Sprintf("on_exceeded: the puzzle sends %s, which no rate_limit of this site sees: nobody can solve it", solution), "rate_limit without a matcher, and the matcher into its zone, after match"))
		}
		if len(z.MatcherSetsRaw) > 0 && !slices.ContainsFunc(z.MatcherSetsRaw, mayBeGET) {
			found = append(found, z.Advice("on_exceeded: nobody is ever challenged, because only pages that browsers call up with GET are: its requests are refused",
				"on_exceeded refuse; or match the pages that lead there, such as match GET /*"))
		}
	}
	return found
}

// obeyed returns an option that handlers without a zone obey as well, or "".
func obeyed(s *config.Survey) string {
	switch {
	case s.App.RulesFile != "":
		return "rules_file"
	case len(s.App.BlockLists) > 0:
		return "block_list"
	case s.App.Ban != nil:
		return "ban"
	}
	return ""
}

// checkObedience finds sites without a handler beside others with one, if the app has options for all.
func checkObedience(s *config.Survey) []advice.Advice {
	option := obeyed(s)
	limited, serving := make(map[string]bool), make(map[string]bool)
	for _, p := range s.Places {
		limited[p.Site] = limited[p.Site] || p.Handler != nil
	}
	for _, v := range s.Views {
		for _, p := range v.Places {
			serving[p.Site] = serving[p.Site] || p.Answers() == "reverse_proxy" || p.Answers() == "file_server"
		}
	}
	without := slices.DeleteFunc(slices.Sorted(maps.Keys(serving)), func(site string) bool { return site == "" || !serving[site] || limited[site] })
	if option == "" || len(without) == 0 {
		return nil
	}
	return []advice.Advice{{Source: s.App.Source, Problem: fmt.Sprintf("%s: sites without rate_limit don't obey it: %s", option, without[0]), Fix: "rate_limit in each site, also without a zone"}}
}

// checkIdleBan finds a ban that can't occur, and notifications of bans that don't.
func checkIdleBan(s *config.Survey) (found []advice.Advice) {
	a, traps := s.App, s.Traps || s.App.Session != nil
	apply := func(z config.SitedZone) bool { return z.WantsClients() && z.Ban == nil && !z.WantsShadow() }
	bans := a.Ban != nil && (traps || slices.ContainsFunc(s.Zones, apply))
	if a.Ban != nil && !bans {
		found = append(found, advice.Advice{Source: a.Source, Problem: "ban: nobody is banned, because no zone counts per client or per api_key, and there is no trap",
			Fix: "per client in a zone whose limits lead to bans"})
	}
	for _, p := range s.Places {
		bans = bans || p.Handler != nil && slices.ContainsFunc(p.Handler.Traps, func(t *config.Trap) bool { return t.Ban != 0 })
	}
	bans = bans || slices.ContainsFunc(s.Zones, func(z config.SitedZone) bool { return z.Ban != nil && !z.WantsShadow() })
	if !bans && slices.ContainsFunc(a.Notify, func(n *config.Notify) bool { return len(n.On) == 1 && n.On[0] == notify.Ban }) {
		found = append(found, advice.Advice{Source: a.Source, Problem: "notify: on ban: no client is ever banned for what it does", Fix: "ban after 5 violations in 10m for 1h beside it, and per client in a zone"})
	}
	return found
}

// checkShut finds a dashboard that can never admit a request.
func checkShut(dash *config.Dashboard, places []*config.Place) []advice.Advice {
	shut := func(p *config.Place) bool {
		return len(dash.AllowRaw) == 0 && !p.Earlier.Anything && !p.Earlier.Has(config.UserID)
	}
	if !slices.ContainsFunc(places, shut) {
		return nil
	}
	return []advice.Advice{{Source: dash.Source, Problem: "rate_limit_dashboard: everybody is answered with 403: nothing before this handler authenticates users",
		Fix: "basic_auth before it, for the same paths; or allow with a matcher"}}
}
