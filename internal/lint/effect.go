package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/net/publicsuffix"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/typo"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
)

// checkEffect asks whether zones, traps and exemptions can do what they say.
func checkEffect(s *config.Survey) (found []advice.Advice) {
	for _, p := range s.Places {
		for _, z := range p.Zones {
			limits := limitsOf(s, z)
			found = slices.Concat(found, checkMeasure(z, limits), checkSettle(p, z, limits), checkDelay(z, limits), checkShared(s, p, z), checkAlternatives(z), checkLockout(z, limits), checkBlock(z, limits), checkAddressing(s, p, z, limits), checkPages(p, z), checkBeside(p, z), checkTwice(s, p, z), checkTierValues(s, p, z), checkPass(p, z), checkBan(z.Ban, z.Advice, limits))
		}
		found = append(found, checkEverything(p)...)
	}
	return slices.Concat(found, checkLimits(s), checkNames(s), checkCase(s), checkApp(s), checkErrors(s))
}

// limitsOf returns the limits of a zone, which may be those of tiers.
func limitsOf(s *config.Survey, z *config.Zone) []config.Limit {
	limits := z.Limits
	if z.MaxEvents > 0 {
		limits = []config.Limit{{Amount: int64(z.MaxEvents), Window: z.Window}}
	}
	if z.Tiers || z.Tier != "" {
		for _, t := range s.App.Tiers {
			limits = slices.Concat(limits, t.Limits)
		}
	}
	return limits
}

// checkMeasure finds limits whose amounts are of other units than those that requests use, or below
// the cost of a path.
func checkMeasure(z *config.Zone, limits []config.Limit) []advice.Advice {
	for _, c := range z.When {
		if c.CPU > 0 && c.CPU < 10 {
			return []advice.Advice{z.Advice(fmt.Sprintf("when: the processors are busy for more than %d%% of nearly every second", c.CPU), "when cpu over 80% in the place of when cpu over "+strconv.Itoa(c.CPU)+"%")}
		}
		if time.Duration(c.SlowerThan) >= time.Minute {
			return []advice.Advice{z.Advice(fmt.Sprintf("when: no upstream takes %v to begin an answer, so that the zone never applies", time.Duration(c.SlowerThan)), "when upstream slower than 500ms")}
		}
	}
	if z.MaxCost > 0 && z.Cost == "" && len(z.Costs) == 0 && z.Settle == "" {
		return []advice.Advice{z.Advice("max_cost: there is no cost, so that each request costs 1", "cost {header.X-Batch} beside it, with what says how much a request uses")}
	}
	if bytes := slices.ContainsFunc(z.CostTexts(), isLength) || z.Settle == config.SettleBytes; z.MaxCost > 0 && (bytes && z.MaxCost < leastUpload || isTokens(z) && z.MaxCost < leastAnswer) {
		return []advice.Advice{z.Advice(fmt.Sprintf("max_cost: a request of any size costs at most %d", z.MaxCost), "max_cost 100_000; or more")}
	}
	for _, l := range limits {
		if days := time.Duration(l.Window) / (24 * time.Hour); l.Algorithm == limiter.Fixed.String() && days >= 28 && days <= 31 && time.Duration(l.Window) != limiter.Month {
			return []advice.Advice{z.Advice(fmt.Sprintf("limit: fixed windows of %d days are counted from 1970, and begin on other days than months do", days), fmt.Sprintf("/month in the place of /%dd", days))}
		}
		most := cmp.Or(l.Burst, l.Amount)
		for _, c := range z.Costs {
			rule, err := config.NewCostRule(c.Cost)
			fits := z.Tiers && slices.ContainsFunc(limits, func(other config.Limit) bool { return rule.Fixed <= max(other.Burst, other.Amount) })
			if err == nil && rule.Fixed > most && !fits && slices.ContainsFunc(c.MatcherSetsRaw, func(set caddy.ModuleMap) bool { return routing.NewRequests(set).Paths != nil }) {
				return []advice.Advice{z.Advice(fmt.Sprintf("cost: a request costs %d, and limit %d never has that many: it is always refused, with status 403", rule.Fixed, most),
					fmt.Sprintf("a cost of at most %d, or a limit of at least %d", most, rule.Fixed))}
			}
		}
		if highest := z.MaxCost; highest > most && slices.ContainsFunc(z.CostTexts(), func(c string) bool { return len(routing.PlaceholderNames(c)) > 0 }) {
			return []advice.Advice{z.Advice(fmt.Sprintf("max_cost: a request may cost %d, and limit %d never has that many: such requests are always refused, with status 403", highest, most), fmt.Sprintf("max_cost %d", most))}
		}
		switch costs := z.Cost != "" || len(z.Costs) > 0 || z.Settle != "" || z.Count != nil; {
		case z.Settle == config.SettleDuration && l.Amount < 1000:
			return []advice.Advice{z.Advice(fmt.Sprintf("settle duration: it counts milliseconds, so that the limit is %d ms per %s", l.Amount, enforce.WindowText(time.Duration(l.Window))),
				fmt.Sprintf("limit %d/%s; these are %d seconds", l.Amount*1000, enforce.WindowText(time.Duration(l.Window)), l.Amount))}
		case !costs && z.Per != enforce.PerEveryone && l.Amount >= manyRequests && time.Duration(l.Window) <= 24*time.Hour:
			return []advice.Advice{z.Advice(fmt.Sprintf("limit: it counts %d requests, and no bytes", l.Amount), "cost 100000 and settle bytes, each on a line of its own beside it")}
		}
	}
	return nil
}

const (
	manyRequests = 1_000_000 // only bytes reach that
	leastUpload  = 100_000   // bytes
	leastAnswer  = 4000      // tokens
)

// isLength reports whether a cost is the size of a body, as the client says.
func isLength(cost string) bool {
	return strings.Contains(strings.ToLower(cost), "http.request.header.content-length")
}

// checkAddressing finds options about keys that the zone's own key doesn't have.
func checkAddressing(s *config.Survey, p *config.Place, z *config.Zone, limits []config.Limit) []advice.Advice {
	switch without := fmt.Sprintf(" has no effect with per %s", z.Per); {
	case z.Scope == config.ScopeSite && p.Site == "" && !p.Anywhere && !isShared(s, p):
		return []advice.Advice{z.Advice("scope: this site has no host, so that all hosts that come to it have one count", "per key \"{client_ip} {http.request.host}\" in the place of scope site, and a second zone per ip: clients invent hosts")}
	case z.Scope == config.ScopeSite && strings.HasPrefix(p.Site, "*.") && z.Per == enforce.PerEveryone:
		return []advice.Advice{z.Advice("scope: "+p.Site+" is one site, so that all its hosts have one count", "per key {http.request.host} in the place of per everyone")}
	case len(z.MatcherSetsRaw) == 0 && slices.ContainsFunc(routing.PlaceholderNames(z.Key+z.Tier), bodyfield.IsField):
		return []advice.Advice{z.Advice("key: requests whose body is of another kind than the field's are refused with 415, on the whole site", "match POST /login beside it, with the paths that have the field")}
	case z.OnEmptyKey == enforce.EmptyDeny && slices.ContainsFunc(routing.PlaceholderNames(z.Key), bodyfield.IsField) && slices.ContainsFunc(z.MatcherSetsRaw, mayBeGET):
		return []advice.Advice{z.Advice("on_empty_key deny: a GET for the page with the form has no body, and is refused", "match POST before the path")}
	case z.Tiers && (z.Per == enforce.PerIP || z.Per == config.PerNetwork) && slices.ContainsFunc(limits, isQuota):
		return []advice.Advice{z.Advice("per "+z.Per+": each address of a customer has the quota of the API key once more", "per api_key")}
	case z.PrefixCeiling > 100 && s.App.Pressure != nil && s.App.Pressure.Disabled && slices.ContainsFunc(z.MatcherSetsRaw, isSignIn):
		return []advice.Advice{z.Advice(fmt.Sprintf("prefix_ceiling: with pressure off, whoever varies his header fields may try %d times as many passwords", z.PrefixCeiling), "prefix_ceiling 10; or leave out pressure off")}
	case z.OnEmptyKey != "" && slices.Contains([]string{enforce.PerIP, config.PerNetwork, enforce.PerEveryone, enforce.PerClient, enforce.PerAPIKey}, z.Per):
		return []advice.Advice{z.Advice("on_empty_key"+without+", whose key is never empty", "it into a zone per key")}
	case z.IPv4Prefix+z.IPv6Prefix > 0 && (z.Per == enforce.PerEveryone || z.Per == enforce.PerAPIKey):
		return []advice.Advice{z.Advice("ipv4_prefix"+without+", whose key is no address", "per ip, or no prefix")}
	case z.IPv4Prefix > 0 && z.IPv4Prefix < 16:
		return []advice.Advice{z.Advice(fmt.Sprintf("ipv4_prefix: a /%d has %d addresses, of many providers, that share one count", z.IPv4Prefix, 1<<(32-z.IPv4Prefix)), "ipv4_prefix 24")}
	case z.IPv6Prefix > 64:
		return []advice.Advice{z.Advice(fmt.Sprintf("ipv6_prefix: one machine has all addresses of a /64, and so a count for each /%d", z.IPv6Prefix), "ipv6_prefix 64")}
	}
	return nil
}

// checkDelay finds delays that are shorter than the time in which a unit gets free.
func checkDelay(z *config.Zone, limits []config.Limit) []advice.Advice {
	for _, l := range limits {
		if each := time.Duration(l.Window) / time.Duration(max(l.Amount, 1)); z.OnExceeded == config.OnExceededDelay && !l.Shadow && each > time.Duration(z.MaxDelay) {
			return []advice.Advice{z.Advice(fmt.Sprintf("on_exceeded: no request waits %v long enough, because a unit of this limit gets free every %v", time.Duration(z.MaxDelay), each), "on_exceeded refuse, or a limit of a shorter window such as 10/10s")}
		}
	}
	return nil
}

// checkLockout finds zones that refuse the sign-ins of an account, or of all, after the attempts of strangers.
func checkLockout(z *config.Zone, limits []config.Limit) []advice.Advice {
	softens := z.RefusesNothing() || delaysAll(z) || z.Count != nil && z.Count.Hold
	i := slices.IndexFunc(routing.PlaceholderNames(z.Key), bodyfield.IsField)
	everyone := z.Per == enforce.PerEveryone || z.Per == "" && z.IsPeerForm() && len(routing.PlaceholderNames(z.Key)) == 0
	scarce := everyone && z.OnExceeded != config.OnExceededChallenge && slices.ContainsFunc(limits, func(l config.Limit) bool {
		return l.Amount < int64(time.Duration(l.Window)/time.Second) // others protect what a sign-in costs
	})
	if i < 0 && !scarce || softens || z.WantsShadow() || !slices.ContainsFunc(z.MatcherSetsRaw, isSignIn) {
		return nil
	}
	if i < 0 {
		return []advice.Advice{z.Advice("per everyone, or a key that is the same for all: whoever tries passwords uses up the limit, and keeps all others from signing in", "per ip")}
	}
	return []advice.Advice{z.Advice(fmt.Sprintf("key: whoever sends an account in {%s} uses up its limit, and keeps its owner out", routing.PlaceholderNames(z.Key)[i]),
		"count status 401 403 hold beside it; or limit 10/10s and a longer delay: on_exceeded delay 15s")}
}

// checkBlock finds blocks that are shorter than their windows, and long ones of keys that may be many people.
func checkBlock(z *config.Zone, limits []config.Limit) []advice.Advice {
	for _, l := range limits {
		block, text := time.Duration(l.Block), wording.Duration(time.Duration(l.Block))
		switch {
		case block == 0 || l.Shadow || z.WantsShadow() || z.OnExceeded == config.OnExceededChallenge:
		case block < time.Duration(l.Window):
			return []advice.Advice{z.Advice(fmt.Sprintf("limit: block %s is shorter than the window, so that who uses up the limit at once is refused for longer than that anyway", text), "a block longer than "+enforce.WindowText(time.Duration(l.Window))+", or none")}
		case slices.Contains([]string{enforce.PerEveryone, "asn", "country", "domain"}, z.Per):
			return []advice.Advice{z.Advice(fmt.Sprintf("limit: with per %s, block %s shuts out all of them once one goes over the limit", z.Per, text), "per ip, or no block")}
		case block > time.Hour && (z.Per == enforce.PerIP || z.Per == config.PerNetwork || z.Per == "" && z.Key == "" && !z.Tiers):
			return []advice.Advice{z.Advice(fmt.Sprintf("limit: block %s refuses an address for longer than an hour, and an office or a mobile network has one for many people", text), "block 1h, or per client")}
		}
	}
	return nil
}

// delaysAll reports whether requests that arrive at once wait until their units are free: the units of a window
// get free after the window and a slot.
func delaysAll(z *config.Zone) bool {
	return z.OnExceeded == config.OnExceededDelay && !slices.ContainsFunc(z.Limits, func(l config.Limit) bool {
		return l.Burst == 0 && time.Duration(z.MaxDelay) < time.Duration(l.Window)+time.Duration(l.Window)/10
	})
}

// isSignIn reports whether a set matches a path where people sign in.
func isSignIn(set caddy.ModuleMap) bool {
	return slices.ContainsFunc(routing.NewRequests(set).Paths, func(path string) bool {
		return signIn.MatchString(path)
	})
}

var signIn = regexp.MustCompile(`(?i)log.?in|sign.?in|auth|session|token|password|reset`)

// checkAlternatives finds lines of match that are probably meant to hold together: they look at different things, or
// one says what isn't meant.
func checkAlternatives(z *config.Zone) []advice.Advice {
	first, differ, telling := "", false, false
	for _, set := range z.MatcherSetsRaw {
		subject := subjectOf(set)
		first = cmp.Or(first, subject)
		telling = telling || subject != "method" && subject != "host"
		if differ = differ || subject == "not" || subject != first; subject == "" {
			return nil
		}
	}
	if len(z.MatcherSetsRaw) < 2 || !differ || !telling {
		return nil
	}
	return []advice.Advice{z.Advice("match: two lines are alternatives: the zone has all requests that meet one of them, not only those that meet both", "one line, such as match POST /login, or one block of matchers")}
}

// subjectOf returns what a matcher set looks at, or "" if that is several things.
func subjectOf(set caddy.ModuleMap) (subject string) {
	subjects := map[string]string{"client_ip": "who", "remote_ip": "who", "country": "who", "asn": "who", "verified_bot": "who", "signed_bot": "who",
		"header": "field", "header_regexp": "field", "method": "method", "path": "target", "path_regexp": "target", "endpoint": "target", "host": "host", "not": "not"}
	for name, raw := range set {
		switch r := routing.NewRequests(caddy.ModuleMap{name: raw}); {
		case subject != "":
			return ""
		case name == "header" && strings.Contains(strings.ToLower(string(raw)), `"user-agent"`):
			subject = "who"
		case name == "endpoint" && r.Methods != nil && !r.Partial && !slices.ContainsFunc(r.Paths, func(path string) bool { return path != "/*" && path != "*" }):
			subject = "method"
		case name == "header" && strings.Contains(string(raw), `"*"`), name == "not" && strings.Contains(string(raw), `"method`):
			return "" // such a field, or all methods but one, may well be an alternative
		default:
			subject = subjects[name]
		}
	}
	return subject
}

// checkShared finds keys that are the same for all visitors of a site.
func checkShared(s *config.Survey, p *config.Place, z *config.Zone) []advice.Advice {
	key := z.Key
	if z.Per == "domain" {
		key = "{http.request.host}"
	}
	elsewhere := slices.ContainsFunc(s.Zones, func(other config.SitedZone) bool { return other.Name == z.Name && other.Site != p.Site })
	var all []routing.Requests
	for _, set := range z.MatcherSetsRaw {
		all = append(all, routing.NewRequests(set))
	}
	tenants, isWildcard := strings.CutPrefix(p.Site, "*.") // they have one registered domain, unless it is a suffix of many
	_, err := publicsuffix.EffectiveTLDPlusOne(tenants)
	isOne := z.Per == "domain" && isWildcard && !strings.Contains(tenants, " ") && err == nil
	if all = append(all, routing.Requests{})[:max(len(all), 1)]; elsewhere || len(routing.PlaceholderNames(key)) == 0 || !isOne && !p.Shares(key, all) {
		return nil
	}
	what, fix := "key: "+key, "per ip; or per everyone, if that is meant"
	if isOne {
		what, fix = "per domain: the registered domain", "per key {http.request.host} in the place of per domain"
	} else if z.Per == "domain" {
		what, fix = "per domain: the host of the site", "per ip; or per asn, which is the network of a provider; or per everyone"
	} else if names := routing.PlaceholderNames(key); len(names) == 1 && strings.HasPrefix(names[0], "http.request.host.labels.") && strings.HasPrefix(p.Site, "*.") && !strings.Contains(p.Site, " ") {
		fix = fmt.Sprintf("per key {http.request.host.labels.%d}; labels are counted from the right", strings.Count(p.Site, "."))
	}
	return []advice.Advice{z.Advice(what+" is the same for all visitors, so that they share one count", fix)}
}

// checkTierValues finds values of a tier that name none.
func checkTierValues(s *config.Survey, p *config.Place, z *config.Zone) []advice.Advice {
	names := routing.PlaceholderNames(z.Tier)
	if len(names) != 1 || z.Tier != "{"+names[0]+"}" || p.Earlier.Anything {
		return nil
	}
	for _, value := range p.Earlier.Values(names[0]) {
		named := func(t *config.Tier) bool { return t.Name == value }
		if slices.ContainsFunc(s.App.Tiers, named) || slices.Contains([]string{"", "-", "none"}, value) || strings.ContainsAny(value, "{}$") {
			continue
		}
		fix := "a tier of this name into the global option rate_limit"
		for _, t := range s.App.Tiers {
			if strings.EqualFold(t.Name, value) || typo.Distance(t.Name, value) == 1 {
				fix = fmt.Sprintf("tier %s in the place of tier %s", value, t.Name)
			}
		}
		return []advice.Advice{z.Advice(fmt.Sprintf("tier: {%s} may be %s, and no tier has this name", names[0], value), fix)}
	}
	return nil
}

// checkPass finds requests beyond a limit that pass unseen: nothing looks whether they are, or only before the zone does.
func checkPass(p *config.Place, z *config.Zone) []advice.Advice {
	if !z.Passes() || p.Earlier.Anything || p.Later.Anything || p.Anywhere {
		return nil
	}
	early, reads := true, z.PassHeader != "" && p.Proxies()
	for _, q := range p.View.Places {
		mentions := func(value any) bool {
			text, _ := json.Marshal(value)
			return z.PassHeader != "" && strings.Contains(strings.ToLower(string(text)), strings.ToLower(z.PassHeader)) || strings.Contains(string(text), z.Name+enforce.WouldRefuseSuffix)
		}
		switch {
		case q.Module == p.Module:
			early = false
		case early && mentions(q.Around) && !slices.Contains([]string{"respond", "error"}, q.Answers()):
			return []advice.Advice{z.Advice("on_exceeded: a matcher before this handler looks whether requests are beyond the limit, and there it has only what clients write", "rate_limit above it in a route block")}
		case q.Name != "subroute":
			reads = reads || mentions(q.Around) || mentions(q.Fields) || mentions(q.Module) || q.Name == "templates"
		}
	}
	if reads {
		return nil
	}
	return []advice.Advice{z.Advice("on_exceeded: requests beyond the limit pass, and nothing looks whether they are", "on_exceeded refuse; or pass X-Over-Limit, and behind it what looks at that field")}
}

// smallLimit is an amount that one page with its pictures, styles and scripts exceeds.
const smallLimit = 10

// checkPages finds small limits for all requests of a site with pages.
func checkPages(p *config.Place, z *config.Zone) []advice.Advice {
	pages := slices.Contains([]string{"reverse_proxy", "file_server"}, p.Serves()) && p.Within() == "" && !strings.HasPrefix(p.Site, "api.")
	if !pages || len(z.MatcherSetsRaw) > 0 || len(z.When) > 0 || z.Cost != "" || len(z.Costs) > 0 || z.Count != nil || z.OnExceeded == config.OnExceededDelay {
		return nil
	}
	if c := z.Concurrent; c != nil && c.Requests <= smallLimit && c.Wait == 0 && p.Proxies() { // a file server may have no pages
		return []advice.Advice{z.Advice(fmt.Sprintf("limit: a browser asks for more than %d files of a page at once, and the others are refused", c.Requests), fmt.Sprintf("limit %d concurrent wait 30s", c.Requests))}
	}
	for _, l := range z.Limits {
		if most := cmp.Or(l.Burst, l.Amount); !l.Shadow && (max(l.Burst, l.Amount) <= smallLimit || l.Burst > 0 && float64(l.Burst)+float64(l.Amount)/time.Duration(l.Window).Seconds() <= smallLimit) {
			return []advice.Advice{z.Advice(fmt.Sprintf("limit: %d requests of every kind are fewer than one page with its pictures makes", most), "match POST /login; with what it is for, or a larger limit")}
		}
	}
	return nil
}

// checkCosts finds zones that no request can pass, or that count nothing, because of their costs.
func (z compiled) checkCosts() []advice.Advice {
	if z.run.DeniesAll || len(z.run.Costs) > 0 || z.run.Cost.From != "" {
		return nil
	}
	if z.run.Cost.Fixed == 0 {
		return []advice.Advice{z.Advice("cost: no request uses up anything, so the zone limits nobody", "a cost of at least 1, or costs with matchers for the requests that count")}
	}
	for _, set := range z.run.Sets() {
		for _, p := range slices.Concat(set.Policies, set.Shadows) {
			if p.Capacity() < z.run.Cost.Fixed {
				return []advice.Advice{z.Advice(fmt.Sprintf("cost: every request costs %d, and the limit %q never has more than %d, so all %s refused", z.run.Cost.Fixed, p.Name, p.Capacity(), areOrWouldBe(p)),
					fmt.Sprintf("a cost of at most %d, or a limit of at least %d", p.Capacity(), z.run.Cost.Fixed))}
			}
		}
	}
	return nil
}

func areOrWouldBe(p *enforce.Policy) string {
	if p.Shadow {
		return "would be"
	}
	return "are"
}

// checkStaticKey finds a key that is the same for all, in our own grammar.
func (z compiled) checkStaticKey() []advice.Advice {
	if z.Per != enforce.PerKey || len(routing.PlaceholderNames(z.Key)) > 0 {
		return nil
	}
	return []advice.Advice{z.Advice(fmt.Sprintf("key: %q has no placeholder in it: everybody shares one count", z.Key), "per ip")}
}

// checkShadow finds options without effect in a zone that enforces nothing, and a shadow limit above
// an enforced one of its kind: such limits are distinguished by their order, so that the enforced one
// would lose its counts.
func (z compiled) checkShadow() (found []advice.Advice) {
	if !z.run.EnforcesNothing {
		for _, set := range z.run.Sets() {
			if p := set.Misplaced; p != nil {
				return []advice.Advice{z.Advice(fmt.Sprintf("limit: %s shadow stands above an enforced limit of the same window, which counts from zero when another one comes in before it", enforce.LimitText(p.Rate)),
					"it below the enforced limits")}
			}
		}
		return nil
	}
	if z.Ban != nil {
		found = append(found, z.Advice("ban: no limit of the zone is enforced, so nobody is banned", "ban with limits that are enforced"))
	}
	if z.Passes() {
		return found
	}
	if !z.Shadow && z.OnEmptyKey == enforce.EmptyDeny {
		found = append(found, z.Advice("shadow: no limit of the zone is enforced, and on_empty_key deny refuses requests all the same", "shadow into a line of its own, for the whole zone"))
	}
	if z.OnExceeded == config.OnExceededChallenge && !z.Shadow {
		found = append(found, z.Advice("on_exceeded: no limit of the zone is enforced, so nobody is challenged while shadow is there", "on_exceeded challenge with limits that are enforced"))
	}
	return found
}

// checkLimits finds limits of zones and tiers that are never reached.
func checkLimits(s *config.Survey) (found []advice.Advice) {
	for _, z := range s.Zones {
		if problem, fix := neverReached(z.Limits); problem != "" {
			found = append(found, z.Advice(problem, fix))
		}
	}
	for _, t := range s.App.Tiers {
		if problem, fix := neverReached(t.Limits); problem != "" {
			found = append(found, advice.Advice{Problem: fmt.Sprintf("tier %q: %s", t.Name, problem), Fix: fix, Source: t.Source})
		}
	}
	return found
}

// neverReached returns the problem of a limit that is never reached, and its fix; or "".
func neverReached(limits []config.Limit) (problem, fix string) {
	for i, one := range limits {
		if sign, ok := strings.CutPrefix(one.Timezone, "Etc/GMT"); ok && strings.ContainsAny(sign, "+-") {
			return fmt.Sprintf("limit: timezone %s is UTC%s: its sign is the other way round", one.Timezone, strings.NewReplacer("+", "-", "-", "+").Replace(sign)), "timezone Europe/Berlin in the place of timezone " + one.Timezone + "; with a city of your zone"
		}
		for j, other := range limits {
			if a, b, contained := neverOver(one, other); contained && i != j && !(i < j && contains(b, a)) {
				first, second := enforce.LimitText(a), enforce.LimitText(b)
				return fmt.Sprintf("limit: %s is never reached, because %s beside it always refuses before", first, second),
					fmt.Sprintf("only limit %s; or a smaller amount than %.0f", second, max(float64(b.Capacity()), perSecondOf(b)*a.Window().Seconds()))
			}
		}
	}
	return "", ""
}

// neverOver reports whether what another limit passes is within a limit.
func neverOver(one, other config.Limit) (a, b limiter.Limit, contained bool) {
	a, errA := one.Compile()
	b, errB := other.Compile()
	return a, b, errA == nil && errB == nil && !other.Shadow && one.Timezone == other.Timezone && contains(a, b)
}

// checkBeside finds zones for all requests that keep a zone for some of them from its own, higher limits.
func checkBeside(p *config.Place, z *config.Zone) []advice.Advice {
	rest := func(z config.Zone) config.Zone { // what makes them count differently
		if z.Per == "" && z.Key == "" {
			z.Per = enforce.PerIP
		}
		z.Name, z.Source, z.Limits, z.MatcherSetsRaw = "", "", nil, nil
		return z
	}
	for _, some := range p.Zones {
		if some == z || z.RefusesNothing() || len(z.MatcherSetsRaw) > 0 || !reflect.DeepEqual(rest(*some), rest(*z)) {
			continue
		}
		reached := func(one config.Limit) bool {
			return !slices.ContainsFunc(z.Limits, func(other config.Limit) bool {
				a, b, contained := neverOver(one, other)
				return contained && !contains(b, a)
			})
		}
		if len(some.Limits) > 0 && !slices.ContainsFunc(some.Limits, reached) {
			return []advice.Advice{z.Advice(fmt.Sprintf("limit: it is also for the requests of zone %q, whose higher limits are never reached", some.Name), "match not endpoint /api/*; with the paths of that zone")}
		}
	}
	return nil
}

// contains reports whether all requests that b passes are within a. It is false if that depends on
// more than amounts and windows.
func contains(a, b limiter.Limit) bool {
	switch {
	case a.Algorithm() == limiter.TokenBucket:
		return b.Algorithm() == a.Algorithm() && b.Capacity() <= a.Capacity() && perSecondOf(b) <= perSecondOf(a)
	case a.Algorithm() == b.Algorithm() && b.Window() == a.Window() && b.Slots() == a.Slots():
		return b.Capacity() <= a.Capacity()
	}
	remembered := a.Window().Seconds() * (1 + 1/float64(max(a.Slots(), 1))) // at most; a month is shorter than two average ones
	if b.Algorithm() == limiter.TokenBucket {
		return float64(b.Capacity())+remembered*perSecondOf(b) <= float64(a.Capacity())
	}
	windows := math.Ceil(remembered / b.Window().Seconds())
	if b.Algorithm() == limiter.Fixed {
		windows++
	}
	return windows*float64(b.Capacity()) <= float64(a.Capacity())
}

func perSecondOf(l limiter.Limit) float64 { return float64(l.Amount()) / l.Window().Seconds() }

// checkEverything finds traps of what every visitor asks for, and options that take the scripts of a site for files.
func checkEverything(p *config.Place) (found []advice.Advice) {
	const unvisited = "trap /.env; with paths that no visitor asks for"
	visited := strings.Fields("/ /index.html /favicon.ico /robots.txt /sitemap.xml /apple-touch-icon.png /.well-known/change-password")
	if p.RunsPHP() {
		visited = append(visited, "/index.php")
	}
	for _, q := range p.View.Places { // paths of routes that lead to pages
		if by := q.Answers(); q.Site != p.Site || by != "reverse_proxy" && by != "file_server" {
			continue
		}
		for _, route := range q.Around {
			for _, r := range route {
				for _, path := range r.Paths {
					visited = append(visited, strings.ReplaceAll(path, "*", "index"))
				}
			}
		}
	}
	for _, o := range p.Sets() {
		meets := func(path string, set caddy.ModuleMap) bool {
			return p.Is(routing.Requests{Methods: []string{"GET"}, Paths: []string{path}}, set)
		}
		i := slices.IndexFunc(visited, func(path string) bool { return meets(path, o.ModuleMap) })
		switch {
		case o.Option == "trap" && p.Is(routing.Requests{}, o.ModuleMap):
			found = append(found, o.Advice("trap: every request is one into the trap, also those of all visitors", unvisited))
		case o.Option == "trap" && i >= 0:
			found = append(found, o.Advice(fmt.Sprintf("trap: visitors, their browsers or search engines ask for %s, and are caught", visited[i]), unvisited))
		case o.Option == "exempt" && o.ModuleMap["file"] != nil && !strings.Contains(string(o.ModuleMap["file"]), `"root"`) && p.RunsPHP():
			others := maps.Clone(o.ModuleMap)
			if delete(others, "file"); meets("/wp-login.php", others) {
				found = append(found, o.Advice("exempt: scripts such as /wp-login.php are files, too", "exempt {, file, not path *.php and }, each on a line of its own"))
			}
		}
	}
	return found
}

// checkNames finds zones that count together because they have the same name, if that may be
// unintended.
func checkNames(s *config.Survey) (found []advice.Advice) {
	first := make(map[string]config.SitedZone)
	reported := make(map[string]bool)
	for _, z := range s.Zones {
		if z.Replaces != "" {
			found = append(found, z.Advice("it replaces an earlier zone of this name"+inSource(z.Replaces)+", which limits nothing", "another name"))
		}
		before, ok := first[z.Name]
		if !ok {
			first[z.Name] = z
			continue
		}
		switch {
		case reported[z.Name] || z.Handler == before.Handler:
		case z.Site == before.Site && !isTwinOf(z, before) && !limitsLike(z.Zone, before.Zone) && (z.Site != "" || z.Scope == config.ScopeSite):
			found = append(found, z.Advice("a zone of this name has other limits"+inSource(before.Source)+", in the same site: both count together where window and algorithm are the same", "another name"))
			reported[z.Name] = true
		case z.Scope == config.ScopeSite || before.Scope == config.ScopeSite:
		case !limitsLike(z.Zone, before.Zone):
			found = append(found, z.Advice("a zone of this name has other limits"+inSource(before.Source)+": both count together where window and algorithm are the same, each up to its own amount",
				"another name, or scope site in both, which counts each site on its own"))
			reported[z.Name] = true
		case z.Scope == "" && z.HasOwnWords() && !isTwinOf(z, before):
			found = append(found, z.Advice("a zone of this name is also in another handler"+inSource(before.Source)+": both count together",
				"scope shared if that is meant; scope site if each site counts on its own; or another name"))
			reported[z.Name] = true
		}
	}
	return found
}

// checkTwice finds zones that count a request in two handlers on its way.
func checkTwice(s *config.Survey, p *config.Place, z *config.Zone) []advice.Advice {
	for _, q := range s.Places[:slices.Index(s.Places, p)] {
		i := slices.IndexFunc(q.Zones, func(y *config.Zone) bool {
			return y.Name == z.Name && y.Per == z.Per && y.Key == z.Key && (len(y.MatcherSetsRaw) == 0 || routing.SameJSON(y.MatcherSetsRaw, z.MatcherSetsRaw))
		})
		if i < 0 || q.View != p.View || q.Site != p.Site {
			continue
		}
		ways := append([]routing.Requests{{}}, q.Own...)
		for _, set := range z.MatcherSetsRaw {
			ways = append(ways, routing.NewRequests(set))
		}
		if slices.ContainsFunc(ways, func(r routing.Requests) bool { return p.Witness(r).Through(q.Module) }) {
			return []advice.Advice{z.Advice("a request counts twice: it passes this zone"+inSource(q.Zones[i].Source)+", and comes here then", "another name; or rate_limit with this zone only once on the way of a request")}
		}
	}
	return nil
}

func inSource(source string) string {
	if source == "" {
		return ""
	}
	return ", at " + source
}

// isTwinOf reports whether two zones come from one zone in the config file that Caddy has
// duplicated, for example for HTTP and for HTTPS.
func isTwinOf(z config.SitedZone, other config.SitedZone) bool {
	return z.Source != "" && z.Source == other.Source && z.Site == other.Site
}

// limitsLike reports whether two zones have the same limits.
func limitsLike(z *config.Zone, other *config.Zone) bool {
	return z.Window == other.Window && z.MaxEvents == other.MaxEvents && z.Tiers == other.Tiers && z.Tier == other.Tier &&
		reflect.DeepEqual(z.Limits, other.Limits)
}

// checkCase finds zones whose names differ only in case.
func checkCase(s *config.Survey) (found []advice.Advice) {
	first := make(map[string]config.SitedZone)
	for _, z := range s.Zones {
		name := strings.ToLower(z.Name)
		if other, ok := first[name]; !ok {
			first[name] = z
		} else if other.Name != z.Name {
			first[name] = z
			found = append(found, z.Advice(fmt.Sprintf("zone %q differs from zone %q only in case%s: each counts on its own", z.Name, other.Name, inSource(other.Source)), "one name for both, or names that differ in more"))
		}
	}
	return found
}

// checkShortWindows finds limits that stay regional because their windows end before other regions
// get the counts.
func (z compiled) checkShortWindows() []advice.Advice {
	if z.app.Region == nil {
		return nil
	}
	least := max(region.MinWindow, 12*time.Duration(z.app.Region.Interval)) // counts are on their way for two intervals and more
	long := func(p *enforce.Policy) bool { return p.Window() >= least }
	for _, set := range z.run.Sets() {
		for _, p := range set.Policies {
			if p.Window() < max(region.MinWindow, least/4) && !slices.ContainsFunc(set.Policies, long) {
				return []advice.Advice{z.Advice(fmt.Sprintf("region: the limit %q counts in each region on its own, because its window of %s is over before other regions hear of it", p.Name, wording.Duration(p.Window())),
					fmt.Sprintf("a limit with a window of at least %s beside it, for all regions together", wording.Duration(least)))}
			}
		}
	}
	return nil
}
