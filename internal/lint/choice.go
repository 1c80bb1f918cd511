package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/crawler"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// addressFields are header fields in which proxies send the client's address, and clients send
// anything.
var addressFields = []string{"X-Forwarded-For", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip",
	"Fastly-Client-Ip", "Forwarded"}

// signatureFields are header fields in which services sign what they send to a webhook. What is behind an exempt
// path checks them: a liar without the secret gets an error.
var signatureFields = []string{
	"Stripe-Signature", "Webhook-Signature", "X-Hub-Signature-256", "X-Gitea-Signature", "X-Forgejo-Signature",
	"X-Gitlab-Token",
	"X-Shopify-Hmac-Sha256", "X-Twilio-Signature", "Paypal-Transmission-Sig",
}

// checkChoice asks whether clients can choose what an option reads.
func checkChoice(s *config.Survey) (found []advice.Advice) {
	for _, p := range s.Places {
		if p.Handler == nil {
			continue
		}
		found = append(found, checkPlainHTTP(s, p)...)
		if i := slices.IndexFunc(p.Zones, func(z *config.Zone) bool { return p.Handler.LogKey && credential(z) != "" }); i >= 0 {
			found = append(found, p.Zones[i].Advice(fmt.Sprintf("log_key: logs get {%s} as it is sent, and whoever reads them can use it", credential(p.Zones[i])), "log_ip in its place; or per api_key"))
		}
		if p.Earlier.Anything {
			continue
		}
		for _, o := range p.Sets() {
			set, option := o.ModuleMap, o.Option
			switch {
			case option == "match" && set["not"] != nil:
				set, option = caddy.ModuleMap{"not": set["not"]}, "match not"
			case option == "cost" && o.Cost == "0":
				option = "cost 0"
			case option != "exempt":
				continue
			}
			if in := p.Inputs(set); p.IsWritten(set) && !isSetField(p, in.Written) &&
				!(option == "exempt" && isSignedWebhook(set)) {
				found = append(found,
					o.Advice(fmt.Sprintf("%s: {%s} is what the client writes: whoever sends it is not limited", option,
						in.Written), saferFix(option, in.Written, set)))
			}
		}
		for _, z := range p.Zones {
			found = append(found, checkZoneChoice(p, z)...)
		}
	}
	return found
}

// credential returns a placeholder in the key of a zone that holds a password or a token, or "".
func credential(z *config.Zone) string {
	for _, name := range routing.PlaceholderNames(z.Key) {
		field, isField := strings.CutPrefix(name, "http.request.header.")
		if strings.HasPrefix(name, "http.request.cookie.") || isField && slices.ContainsFunc([]string{"Authorization", "Cookie", "Token", "Api-Key", "Apikey"},
			func(end string) bool { return strings.HasSuffix(strings.ToLower(field), strings.ToLower(end)) }) {
			return name
		}
	}
	return ""
}

// isSignedWebhook reports whether a set consists of an endpoint and fields with a service's signature.
func isSignedWebhook(set caddy.ModuleMap) bool {
	var fields map[string]any
	if len(set) != 2 || set["endpoint"] == nil || json.Unmarshal(set["header"], &fields) != nil {
		return false
	}
	for field := range fields {
		if !slices.ContainsFunc(signatureFields, func(f string) bool { return strings.EqualFold(f, field) }) {
			return false
		}
	}
	return len(fields) > 0
}

// saferFix returns what to write for a matcher that reads a placeholder which clients write.
func saferFix(option, name string, set caddy.ModuleMap) string {
	if strings.HasPrefix(name, config.CertificateFamily) {
		return verified
	}
	return option + " " + safer(name, set)
}

// isSetField reports whether a placeholder is a field that an earlier handler sets for some requests, as checkNeeds
// tells.
func isSetField(p *config.Place, name string) bool {
	field, isField := strings.CutPrefix(name, "http.request.header.")
	_, every := p.WitnessStranger(routing.Requests{}).Set(field)
	return isField && p.Earlier.Has(name) && !every
}

// verified is the fix for certificates that anybody can make.
const verified = "require_and_verify and trust_pool file ca.pem into client_auth"

// safer returns a matcher that clients can't choose, in the place of one that reads the named placeholder.
func safer(name string, set caddy.ModuleMap) string {
	if name != "http.request.header.User-Agent" {
		return "client_ip 192.0.2.0/24; or a tier with unlimited and service_header"
	}
	bots := ""
	for _, operator := range crawler.Names() {
		for _, raw := range set {
			if crawler.Find(operator).IsClaimedBy(string(raw)) {
				bots += " " + operator
			}
		}
	}
	if any := strings.ToLower(string(set["header"]) + string(set["not"])); bots == "" && strings.Contains(any, "*bot*") {
		bots = " google bing"
	}
	if bots == "" {
		return "client_ip 192.0.2.0/24; with the networks that it comes from"
	}
	return "verified_bot" + bots
}

func checkZoneChoice(p *config.Place, z *config.Zone) (found []advice.Advice) {
	give := func(name, option, problem, fix string) {
		if name != "" {
			found = append(found, z.Advice(fmt.Sprintf("%s: {%s} is what the client %s", option, name, problem), fix))
		}
	}
	if z.MaxCost == 0 {
		give(p.Written(z.CostTexts()...), "cost", "writes, and nothing bounds it",
			"max_cost 100 beside it, or a cost of your own; max_cost lets 0 pass for free: a second zone without cost counts all")
	}
	if (z.MaxCost == 0 || z.MaxCost >= leastUpload) && slices.ContainsFunc(z.CostTexts(), isLength) && !slices.ContainsFunc(z.Costs, func(c config.Cost) bool {
		return slices.ContainsFunc(c.MatcherSetsRaw, func(set caddy.ModuleMap) bool { return set["not"] != nil })
	}) {
		found = append(found, z.Advice("cost: who sends a body in chunks writes no Content-Length, and a request without it costs 1", fmt.Sprintf("cost %d not header Content-Length * and cost {http.request.header.Content-Length}, each on a line of its own", cmp.Or(z.MaxCost, 1_000_000_000_000))))
	}
	if name, last := surcharge(p, z); name != "" {
		give(name, "cost", fmt.Sprintf("writes: without it a request costs %d", last),
			"the highest cost last, and lower ones above it with matchers for what is cheap")
	}
	give(p.Written(z.Settle), "settle", "writes: it writes 0 and gets everything back",
		"settle with what the upstream says, such as {http.response.header.X-Tokens}")
	give(identity(p, z.Tier), "tier", "writes: it chooses its limits",
		"tiers with api_keys, or a service_header in the tier")
	if isAddress := z.Key == "{http.vars.client_ip}" || z.Key == "{http.request.remote.host}" && !routing.TrustsProxies(p.View.Server); isAddress && z.Per == enforce.PerKey && z.IPv6Prefix == 0 {
		give(strings.Trim(z.Key, "{}"), "key", "chooses among the 2^64 addresses of its IPv6 network: it gets another limit with each", "per ip")
	}
	if z.Per == "" || z.Per == enforce.PerKey {
		name := p.Written(z.Key)
		field, _ := strings.CutPrefix(name, "http.request.header.")
		switch {
		case slices.ContainsFunc(addressFields, func(f string) bool { return strings.EqualFold(f, field) }):
			give(name, "key", "sends: it gets another limit with every other value that it makes up",
				"per ip, and trusted_proxies in the global option servers")
		case strings.Contains(name, "uri"):
			give(name, "key", "sends: it gets another limit with every ?x=1 that it adds",
				"per key \"{client_ip} {http.request.uri.path}\"; or per ip alone")
		case p.Authenticates() == "" && !isBounded(p, z):
			fix := "a second zone per ip beside it; or per api_key, with api_keys"
			if strings.HasPrefix(name, config.CertificateFamily) {
				fix = verified
			}
			give(identity(p, z.Key), "key", "sends: it gets another limit with every value that it guesses", fix)
		}
	}
	return found
}

// surcharge returns what clients write in the matchers of a cost above the last one, which holds if they leave it out;
// or "".
func surcharge(p *config.Place, z *config.Zone) (name string, last int64) {
	rule, err := config.NewCostRule(z.Cost)
	for _, c := range z.Costs {
		if higher, failed := config.NewCostRule(c.Cost); err != nil || failed != nil || rule.From != "" ||
			higher.Fixed <= rule.Fixed {
			continue
		}
		for _, set := range c.MatcherSetsRaw {
			if in := p.Inputs(set); set["not"] == nil && enforce.MayHaveSeveral(in.Written) {
				return in.Written, rule.Fixed
			}
		}
	}
	return "", 0
}

// identity returns [place.written] of a text, without what another check tells.
func identity(p *config.Place, text string) string {
	name := p.Written(text)
	if problem, _, _ := p.Judge(name); problem != "" || isSetField(p, name) {
		return ""
	}
	return name
}

// isBounded reports whether another zone bounds what one client uses of a zone, whatever it sends.
func isBounded(p *config.Place, z *config.Zone) bool {
	return slices.ContainsFunc(p.Zones, func(other *config.Zone) bool {
		return other != z && !other.WantsShadow() &&
			(len(other.MatcherSetsRaw) == 0 || routing.SameJSON(other.MatcherSetsRaw, z.MatcherSetsRaw)) &&
			(other.Key == "" && !other.IsPeerForm() || other.Key != "" && p.Written(other.Key) == "")
	})
}

// checkPlainHTTP finds sessions and traps on servers that speak plain HTTP.
func checkPlainHTTP(s *config.Survey, p *config.Place) (found []advice.Advice) {
	if len(p.View.Server.TLSConnPolicies) > 0 {
		return nil
	}
	if s.App.Session != nil {
		found = append(found,
			advice.Advice{Server: p.View.Server.Listen, Problem: "sessions over plain HTTP can be read and taken over on the way; use HTTPS, here or at a proxy in front"})
	}
	if i := slices.IndexFunc(p.Handler.Traps,
		func(t *config.Trap) bool { return t.Ban != 0 || s.App.Ban != nil }); i >= 0 {
		found = append(found, advice.Advice{Source: p.Handler.Traps[i].Source, Problem: "trap: over plain HTTP browsers don't say that a page of another site leads them into a trap, so it can have its visitors banned",
			Fix: "an https:// site, here or at a proxy in front; or a trap without a ban"})
	}
	return found
}
