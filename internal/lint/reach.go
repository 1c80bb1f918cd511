package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

const firstInRoute = "rate_limit above it in a route block, or where redir leads; or no global option order for rate_limit"

// checkReach asks whether requests can reach a handler, its zones and its challenge, and an answer behind it. It
// sends witnesses: see [routing.Place.Witness].
func checkReach(s *config.Survey) (found []advice.Advice) {
	for _, p := range s.Places {
		if p.Handler == nil {
			continue
		}
		all := p.Witness(routing.Requests{})
		unanswered, _ := all.Unanswered()
		switch before := all.Before(); {
		case all.Never() == routing.Excluded:
			found = append(found, p.Handler.Advice("this handler never runs: the matcher of a route around it matches no request of its site",
				"a host or path of this site in that matcher"))
		case strings.HasPrefix(all.Never(), "redir "):
			found = append(found, p.Handler.Advice("this handler never runs: redir before it answers every request", "the zones where redir leads"))
		case all.Never() != "":
			found = append(found,
				p.Handler.Advice("this handler never runs: "+strings.TrimSuffix(all.Never(), "them")+"every request",
					firstInRoute))
		case p.InErrors:
			found = append(found, p.Handler.Advice("this handler is in handle_errors, where it sees only requests that have failed: all others pass without a limit",
				"rate_limit outside of handle_errors; count status 404 in a zone counts failed requests"))
		case before != "" && unanswered:
			found = append(found,
				p.Handler.Advice(before+
					" before this handler answers, and nothing behind it does: what is answered is not limited",
					firstInRoute))
		case unanswered && all.Elsewhere() && len(p.Zones) > 0 && isUnmatched(p.Place):
			found = append(found, p.Handler.Advice("nothing behind this handler answers, and of several handle blocks only one runs: the others' requests are not limited", "rate_limit outside of handle"))
		default:
			found = append(found, checkSent(p)...)
			for _, z := range p.Zones {
				found = slices.Concat(found, checkZoneReach(p, z, all), checkPassedBy(p, z))
			}
			found = append(found, checkOptionReach(p, isShared(s, p))...)
			if name := p.ReadsEarly(enforce.OurPlaceholders); name != "" && !bodyfield.IsField(name) {
				found = append(found, p.Handler.Advice("header: {"+name+"} isn't set yet where a header before this handler reads it: clients get its name",
					"header >X-Field {"+name+"}, which waits for the answer"))
			}
		}
	}
	return slices.Concat(found, checkWrapped(s), checkAdmin(s), checkUnused(s), checkPuzzles(s), checkIdleBan(s), checkObedience(s))
}

// checkWrapped finds servers that Caddy doesn't give the options that are written for their port, or for none: an
// option `servers` with an address is for servers that listen at exactly this one.
func checkWrapped(s *config.Survey) (found []advice.Advice) {
	portOf := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	warned := make(map[*caddyhttp.Server]bool)
	for _, p := range s.Places {
		server := p.View.Server
		listens := func(at string) bool { return slices.Contains(server.Listen, at) }
		if p.Handler == nil || slices.ContainsFunc(p.Handler.WrappedAt, listens) {
			continue
		}
		for _, at := range p.Handler.WrappedAt {
			i := slices.IndexFunc(server.Listen, func(address string) bool { return portOf(address) == portOf(at) })
			used := portOf(at) == "80" || slices.ContainsFunc(s.Views, func(v *routing.View) bool { return slices.Contains(v.Server.Listen, at) })
			if (i >= 0 || !used) && !warned[server] {
				warned[server] = true
				listens := server.Listen[max(i, 0)]
				found = append(found, advice.Advice{Server: server.Listen, Fix: "servers " + listens + ", or servers without an address",
					Problem: fmt.Sprintf("servers %s: its options are not for this server, which listens at %s", at, listens)})
			}
		}
	}
	return found
}

// checkAdmin finds sites through which strangers reach the admin endpoint of this Caddy.
func checkAdmin(s *config.Survey) (found []advice.Advice) {
	ban := routing.NewRequests(caddy.ModuleMap{"method": json.RawMessage(`["POST"]`), "path": json.RawMessage(`["/rate_limit/ban"]`)})
	isAdmin := func(u *reverseproxy.Upstream) bool {
		return slices.Contains([]string{"localhost:2019", "127.0.0.1:2019", "[::1]:2019"}, u.Dial)
	}
	for _, v := range s.Views {
		for _, p := range v.Places {
			h, ok := p.Module.(*reverseproxy.Handler)
			if !ok || !slices.ContainsFunc(h.Upstreams, isAdmin) {
				continue
			}
			if ways := p.WitnessStranger(ban); ways.Reaches() && !ways.Unmatched() {
				found = append(found, advice.Advice{Server: v.Server.Listen, Problem: "reverse_proxy to the admin endpoint: any visitor may ban, lift bans and reset counts, and change this config",
					Fix: "reverse_proxy /rate_limit/charge/* for an application, on a site that only it reaches"})
			}
		}
	}
	return found
}

// checkZoneReach finds a zone whose requests never arrive, or are answered before or never. All are the ways of all
// requests to the handler.
func checkZoneReach(p *config.Place, z *config.Zone, all routing.Witnessed) []advice.Advice {
	unanswered, by := len(z.MatcherSetsRaw) > 0, ""
	for _, set := range z.MatcherSetsRaw {
		r := routing.NewRequests(set)
		its := p.Witness(r)
		if why := its.Never(); why != "" {
			return []advice.Advice{z.Advice(fmt.Sprintf("match: the zone never sees %s: %s", r, why),
				"the zone into a rate_limit that sees them: above it in a route block or in its handle, or without its matcher")}
		}
		if its.Unmatched() {
			return []advice.Advice{z.Advice("match: no request meets all conditions of a line: they exclude one another, or a handler before this one changes what they look at", "conditions that one request can meet; lines of match are alternatives")}
		}
		none, refused := its.Unanswered()
		unanswered, by = unanswered && none, cmp.Or(by, refused)
	}
	others, _ := all.Unanswered()
	switch r := z.MatcherSetsRaw; {
	case unanswered && !others && (by == "" || z.Count == nil && z.Ban == nil):
		return []advice.Advice{
			z.Advice(fmt.Sprintf("match: nothing behind this handler answers %s, or only with an error",
				routing.NewRequests(r[0])),
				"the path as clients send it, with what handle_path removes from it; or what answers it")}
	case len(r) == 0 && len(z.When) == 0 && all.Passed() != "":
		return []advice.Advice{z.Advice(fmt.Sprintf("the zone never sees %s: reverse_proxy before it answers them",
			all.Passed()), firstInRoute)}
	}
	return nil
}

// checkPassedBy finds requests for the paths of a zone that come to the same upstream without it: with fields for which
// another route asks, or in a spelling that another route takes.
func checkPassedBy(p *config.Place, z *config.Zone) []advice.Advice {
	all := make([]routing.Requests, 0, len(z.MatcherSetsRaw)+1)
	for _, set := range z.MatcherSetsRaw {
		all = append(all, routing.NewRequests(set))
	}
	if len(p.Around) > 0 && len(all) == 0 {
		all = append(all, p.Around[len(p.Around)-1]...)
	}
	for _, r := range all {
		honest := p.WitnessStranger(r)
		if !honest.Reaches() || len(honest.Answerers(false)) > 0 || r.Paths == nil {
			continue
		}
		passes := func(ways routing.Witnessed) bool {
			return slices.ContainsFunc(ways.Answerers(false), func(past any) bool {
				return slices.ContainsFunc(honest.Answerers(true), func(behind any) bool {
					return upstreams(past) != nil && routing.SameJSON(upstreams(past), upstreams(behind))
				})
			})
		}
		if passes(p.WitnessLiar(r, p.IsWritten)) {
			return []advice.Advice{z.Advice(fmt.Sprintf("the zone never sees %s of a client whose fields lead it around this handler, to the same upstream", r), "a path beside the field in the matcher of that route; or rate_limit above both, without a matcher")}
		}
		for _, path := range r.Paths {
			other := r
			if other.Paths = []string{path + "/"}; !strings.ContainsAny(path, "*{") && !strings.HasSuffix(path, "/") && passes(p.WitnessStranger(other)) {
				return []advice.Advice{z.Advice(fmt.Sprintf("the zone never sees %s/, which another route leads to the same upstream, and which it may take for %[1]s", path), "rate_limit above both, in a route block or outside of handle")}
			}
		}
	}
	return nil
}

// checkOptionReach finds traps and costs of requests that never arrive, costs that never apply, and options that take
// all requests of a zone from any stranger. Of a shared handler some exemptions may be for other sites.
func checkOptionReach(p *config.Place, shared bool) (found []advice.Advice) {
	sets := p.Sets()
	for i, o := range sets {
		requests := routing.NewRequests(o.ModuleMap)
		excluded := func(set caddy.ModuleMap) bool { return !routing.NewRequests(set).Excludes(requests) }
		switch o.Option {
		case "trap":
			if why := p.Witness(requests).Never(); why != "" {
				found = append(found, o.Advice(fmt.Sprintf("trap: it never sees %s: %s", requests, why),
					"the trap into a rate_limit that sees them: before it, or without its matcher"))
				continue
			}
			if i := slices.IndexFunc(sets, func(e config.OptionSet) bool { return e.Option == "exempt" && p.Is(requests, e.ModuleMap) }); i >= 0 {
				found = append(found, o.Advice(fmt.Sprintf("trap: it never sees %s: exempt %s has them", requests, routing.NewRequests(sets[i].ModuleMap)),
					"paths without them into the exempt; or the exempt as match not into the zones"))
				continue
			}
			found = append(found, checkTaken(p, o)...)
		case "exempt":
			its := p.Witness(requests)
			if why := its.Never(); why != "" && !shared && requests.Hosts == nil {
				found = append(found, o.Advice(fmt.Sprintf("exempt: it never sees %s: %s", requests, why),
					"the exempt into a rate_limit that sees them; or leave it out"))
				continue
			}
			if respelled := checkRespelled(p, o, o.ModuleMap, "exempt"); respelled != nil && !shared {
				found = append(found, respelled...)
				continue
			}
			if p.Is(routing.Requests{}, o.ModuleMap) {
				problem, fix := "every request is exempt, so this handler limits nobody", "exempt /health; with a path or a network of its own"
				if o.ModuleMap["not"] != nil {
					problem, fix = "not exempts all others, so that this handler limits only what it names", "exempt without not"
				}
				found = append(found, o.Advice("exempt: "+problem, fix))
				continue
			}
			found = append(found, checkTaken(p, o)...)
		case "match":
			for _, set := range config.WithNegated(o.ModuleMap)[1:] {
				found = append(found, checkRespelled(p, o, set, "match not endpoint")...)
			}
		case "cost":
			earlier := slices.IndexFunc(sets[:i], func(e config.OptionSet) bool {
				return e.Option == "cost" && e.Zone == o.Zone && requests.IsWithin(routing.NewRequests(e.ModuleMap))
			})
			switch {
			case len(o.Zone.MatcherSetsRaw) > 0 && !slices.ContainsFunc(o.Zone.MatcherSetsRaw, excluded):
				found = append(found,
					o.Advice(fmt.Sprintf("cost: the zone never has %s, because its match doesn't", requests),
						"a match that sees them; or no cost for them"))
			case earlier >= 0 && sets[earlier].Cost != o.Cost:
				found = append(found,
					o.Advice(fmt.Sprintf("cost: %s never costs %s, because cost %s %s is above it", requests, o.Cost,
						sets[earlier].Cost, routing.NewRequests(sets[earlier].ModuleMap)),
						"the line for fewer requests first"))
			}
		}
	}
	return found
}

// checkRespelled finds options for all but some requests whose paths are others there than as clients send them.
func checkRespelled(p *config.Place, o config.OptionSet, set caddy.ModuleMap, option string) []advice.Advice {
	const something = "~" // in the place of a wildcard
	r := routing.NewRequests(set)
	for i, path := range r.Paths {
		r.Paths[i] = strings.ReplaceAll(path, "*", something)
	}
	sent, here := p.Witness(r).Respelled()
	if here == "" {
		return nil
	}
	sent, here = strings.ReplaceAll(sent, something, "*"), strings.ReplaceAll(here, something, "*")
	return []advice.Advice{o.Advice(fmt.Sprintf("%s: clients send %s, and here it is %s: it holds only for requests whose two paths it has", strings.TrimSuffix(option, " endpoint"), sent, here), option+" "+here+" "+sent)}
}

// isShared reports whether the lines of a handler make others, too, as those of a snippet that is imported twice.
func isShared(s *config.Survey, p *config.Place) bool {
	return slices.ContainsFunc(s.Places, func(other *config.Place) bool {
		return other != p && other.Handler != nil && other.Handler.Source == p.Handler.Source && p.Handler.Source != ""
	})
}

// checkTaken finds zones all of whose requests are in an exemption or a trap, whoever sends them.
func checkTaken(p *config.Place, o config.OptionSet) (found []advice.Advice) {
	r, fix := routing.NewRequests(o.ModuleMap), o.Option+" for other paths"
	if o.Option == "exempt" && r.Paths != nil {
		fix += ": it is for all zones; or match not path " + strings.Join(r.Paths, " ") + " in the zone that it is for"
	}
	for _, z := range p.Zones {
		left := func(set caddy.ModuleMap) bool { return !p.Is(routing.NewRequests(set), o.ModuleMap) }
		if len(z.MatcherSetsRaw) > 0 && !slices.ContainsFunc(z.MatcherSetsRaw, left) {
			found = append(found,
				z.Advice("match: all requests of the zone are in "+o.Option+" "+r.String(), fix))
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
	unused(len(s.App.Tiers) > 0, func(z config.SitedZone) bool { return z.Tiers || z.Tier != "" },
		"tier: no zone has tiers or tier, so that its limits are nobody's", "tiers into a zone, in the place of limit")
	unused(s.App.APIKeys != nil, func(z config.SitedZone) bool { return z.LooksAtKeys() },
		"api_keys: no zone asks for one", "per api_key into a zone")
	return found
}

// checkOwnPages finds a dashboard that doesn't get the requests for its own pages.
func checkOwnPages(p *config.Place) []advice.Advice {
	if by := p.Serves(); by != "" && isUnmatched(p.Place) {
		return []advice.Advice{{Source: p.Dashboard.Source,
			Problem: "rate_limit_dashboard: it answers all requests of its site: " + by + " behind it never runs",
			Fix:     "handle_path /limits/* {, and the dashboard in it"}}
	}
	page := ownPage(p)
	if p.Dashboard.Writable {
		page.Methods[0] = "POST"
	}
	why := p.Witness(page).Never()
	if why == "" {
		return nil
	}
	return []advice.Advice{{Source: p.Dashboard.Source,
		Problem: fmt.Sprintf("rate_limit_dashboard: it never sees %s: %s", page, why),
		Fix:     "handle_path /limits/* {, and the dashboard in it"}}
}

// ownPage returns the requests for a page of a dashboard.
func ownPage(p *config.Place) routing.Requests {
	return routing.Requests{Methods: []string{"GET"}, Paths: []string{strings.TrimSuffix(p.Within(), "/") + "/clients"}}
}

// isUnmatched reports whether all requests of a site come to the place.
func isUnmatched(p *routing.Place) bool {
	return !slices.ContainsFunc(p.Around, func(route []routing.Requests) bool {
		return !slices.ContainsFunc(route,
			func(r routing.Requests) bool {
				return !r.Partial && r.Methods == nil && (r.Paths == nil || slices.Contains(r.Paths, "/*"))
			})
	})
}

// mayBeGET reports whether a set may match requests with GET.
func mayBeGET(set caddy.ModuleMap) bool {
	methods := routing.NewRequests(set).Methods
	return methods == nil || slices.Contains(methods, "GET")
}

// checkPuzzles finds challenges that are never shown, because they are only for pages that browsers request
// with GET, and those whose solutions no handler of their site gets.
func checkPuzzles(s *config.Survey) (found []advice.Advice) {
	solution := routing.Requests{Methods: []string{"POST"}, Paths: []string{config.DefaultSessionPath + "*"}}
	if s.App.Session != nil && s.App.Session.Path != "" {
		solution.Paths[0] = s.App.Session.Path + "*"
	}
	serves := func(site string) bool {
		return slices.ContainsFunc(s.Places, func(p *config.Place) bool {
			return p.Handler != nil && p.Site == site && p.Witness(solution).Never() == ""
		})
	}
	for _, z := range s.Zones {
		own := func(set caddy.ModuleMap) bool {
			return !routing.NewRequests(set).IsWithin(routing.Requests{Paths: solution.Paths})
		}
		if s.App.Session != nil && len(z.MatcherSetsRaw) > 0 && !slices.ContainsFunc(z.MatcherSetsRaw, own) {
			found = append(found, z.Advice("match: these are the paths of session, which answers them: the zone never sees them",
				"session { path /.challenge/ }, a line each, with a path that the site doesn't have"))
		}
		if z.OnExceeded != config.OnExceededChallenge {
			continue
		}
		if s.App.Session != nil && !serves(z.Site) {
			found = append(found,
				z.Advice(
					fmt.Sprintf(
						"on_exceeded: the puzzle sends %s, which no rate_limit of this site sees: nobody can solve it", solution), "rate_limit without a matcher, and the matcher into its zone, after match"))
		}
		if len(z.MatcherSetsRaw) > 0 && !slices.ContainsFunc(z.MatcherSetsRaw, mayBeGET) {
			found = append(found, z.Advice("on_exceeded: nobody is ever challenged, because only pages that browsers call up with GET are: its requests are refused",
				"on_exceeded refuse; or match without the method, also the page before"))
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
	found := checkTwins(s)
	without := slices.DeleteFunc(slices.Sorted(maps.Keys(serving)),
		func(site string) bool { return site == "" || !serving[site] || limited[site] })
	if option == "" || len(without) == 0 {
		return found
	}
	return append(found, advice.Advice{Source: s.App.Source,
		Problem: fmt.Sprintf("%s: sites without rate_limit don't obey it: %s", option, without[0]),
		Fix:     "rate_limit in each site, also without a zone"})
}

// upstreams returns those of a proxy, unless it asks as forward_auth does.
func upstreams(handler any) reverseproxy.UpstreamPool {
	if h, ok := handler.(*reverseproxy.Handler); ok && len(h.HandleResponse) == 0 {
		return h.Upstreams
	}
	return nil
}

// checkTwins finds sites with zones whose pages are also at another of their names, with www. or without TLS, where no
// handler limits them.
func checkTwins(s *config.Survey) []advice.Advice {
	name := func(site string) string { return strings.TrimPrefix(site, "www.") }
	usual := func(v *routing.View) bool {
		return slices.ContainsFunc(v.Server.Listen, func(at string) bool { return strings.HasSuffix(at, ":80") || strings.HasSuffix(at, ":443") })
	}
	for _, p := range s.Places {
		for _, v := range s.Views {
			for _, q := range v.Places {
				same := func(own *routing.Place) bool {
					return own.Site == p.Site && routing.SameJSON(upstreams(own.Module), upstreams(q.Module))
				}
				limited := func(other *config.Place) bool {
					return other.View == v && other.Handler != nil && (other.Site == q.Site || other.Site == "")
				}
				if len(p.Zones) > 0 && p.Site != "" && name(q.Site) == name(p.Site) && usual(v) && upstreams(q.Module) != nil && isUnmatched(q) && slices.ContainsFunc(p.View.Places, same) && !slices.ContainsFunc(s.Places, limited) {
					return []advice.Advice{p.Handler.Advice(fmt.Sprintf("the same pages are at %s of %s, where nothing limits them", q.Site, strings.Join(v.Server.Listen, " ")), "redir there, to this site; or both names before one block")}
				}
			}
		}
	}
	return nil
}

// checkIdleBan finds a ban that can't occur, and notifications of bans that don't.
func checkIdleBan(s *config.Survey) (found []advice.Advice) {
	a, traps := s.App, s.Traps || s.App.Session != nil
	apply := func(z config.SitedZone) bool { return z.WantsClients() && z.Ban == nil && !z.WantsShadow() }
	bans := a.Ban != nil && (traps || slices.ContainsFunc(s.Zones, apply))
	if a.Ban != nil && !bans {
		found = append(found,
			advice.Advice{Source: a.Source,
				Problem: "ban: nobody is banned, because no zone counts per client or per api_key, and there is no trap",
				Fix:     "per client in a zone whose limits lead to bans"})
	}
	for _, p := range s.Places {
		bans = bans || p.Handler != nil &&
			slices.ContainsFunc(p.Handler.Traps, func(t *config.Trap) bool { return t.Ban != 0 })
	}
	bans = bans ||
		slices.ContainsFunc(s.Zones, func(z config.SitedZone) bool { return z.Ban != nil && !z.WantsShadow() })
	if !bans && slices.ContainsFunc(a.Notify,
		func(n *config.Notify) bool { return len(n.On) == 1 && n.On[0] == notify.Ban }) {
		found = append(found,
			advice.Advice{Source: a.Source, Problem: "notify: on ban: no client is ever banned for what it does",
				Fix: "ban after 5 violations in 10m for 1h beside it, and per client in a zone"})
	}
	return found
}

// checkShut finds a dashboard that can never admit a request.
func checkShut(dash *config.Dashboard, places []*config.Place) []advice.Advice {
	shut := func(p *config.Place) bool {
		ways := p.Witness(ownPage(p))
		lacks := func(name string) bool {
			noted := noted(name)
			some, _ := ways.Set(noted)
			return noted != "" && p.Earlier.Has(name) && !some
		}
		admits := func(set caddy.ModuleMap) bool { return !slices.ContainsFunc(config.NamesOfSet(set), lacks) }
		if len(dash.AllowRaw) == 0 {
			return !p.Earlier.Anything && (!p.Earlier.Has(config.UserID) || lacks(config.UserID))
		}
		return !p.Earlier.Anything && !slices.ContainsFunc(dash.AllowRaw, admits)
	}
	if !slices.ContainsFunc(places, shut) {
		return nil
	}
	fix := "basic_auth for them before it, no global order; or allow with a matcher"
	if len(dash.AllowRaw) > 0 {
		fix = "a forward_auth or basic_auth for these paths, too"
	}
	return []advice.Advice{{Source: dash.Source, Fix: fix,
		Problem: "rate_limit_dashboard: everybody is answered with 403: nothing before this handler authenticates users of these paths"}}
}

// checkOpen finds a dashboard with which strangers may do what operators do.
func checkOpen(dash *config.Dashboard, places []*config.Place) (found []advice.Advice) {
	for _, p := range places {
		for _, set := range dash.AllowRaw {
			may := "ban and lift bans"
			if !dash.Writable {
				may = "look at it, since every visitor comes from the address of the proxy"
			}
			if (dash.Writable || set["remote_ip"] != nil) && p.Is(routing.Requests{}, set) && p.WitnessStranger(routing.Requests{}).Reaches() {
				found = append(found,
					advice.Advice{Source: dash.Source,
						Problem: "rate_limit_dashboard: allow: a stranger without a password may " + may,
						Fix:     "basic_auth before it; or allow client_ip 192.0.2.0/24, with the networks of the operators"})
			}
		}
	}
	return found
}
