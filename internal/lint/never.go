package lint

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/bodyfield"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/siting"
	"github.com/caddy-tally/caddy-tally/internal/typo"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// checkBan finds a ban after more violations than can occur: each limit counts one in its window, and in a minute, at
// most.
func checkBan(ban *config.Ban, advise func(problem, fix string) advice.Advice, limits []config.Limit) []advice.Advice {
	if ban == nil {
		return nil
	}
	most := 0
	for _, l := range limits {
		most += int((time.Duration(ban.Within)-1)/max(time.Duration(l.Window), time.Minute)) + 2
	}
	if ban.After <= most || len(limits) == 0 {
		return nil
	}
	after := min(most, 5)
	if most < 3 {
		after = 1 // as after so many failures elsewhere
	}
	return []advice.Advice{advise(fmt.Sprintf("ban: there are never %d violations in %v: a limit counts one in its window, and in a minute, at most", ban.After, time.Duration(ban.Within)),
		fmt.Sprintf("ban after %s in %s for %s; or a longer time", wording.Counted(after, "violation"), wording.Duration(time.Duration(ban.Within)), wording.Duration(time.Duration(ban.For))))}
}

// isQuota reports whether a limit is one that customers know.
func isQuota(l config.Limit) bool { return time.Duration(l.Window) >= 7*24*time.Hour }

// guessable matches secrets that are in documents and lists of passwords.
var guessable = regexp.MustCompile(`(?i)change.?me|passw(or)?d|secret|example|replace.?me|qwertz?y?|(0123|1234)5678|abcdefgh`)

// checkApp finds global options that help nobody.
func checkApp(s *config.Survey) (found []advice.Advice) {
	a := s.App
	give := func(applies bool, problem, fix string) {
		if applies {
			found = append(found, advice.Advice{Source: a.Source, Problem: problem, Fix: fix})
		}
	}
	var all []config.Limit
	tiered, tells := make(map[string]bool), false
	for _, z := range s.Zones {
		all = append(all, limitsOf(s, z.Zone)...)
		tells = tells || slices.ContainsFunc(limitsOf(s, z.Zone), func(l config.Limit) bool {
			return l.Algorithm == limiter.Fixed.String() && time.Duration(l.Window) >= 24*time.Hour && !l.Shadow
		}) && !(countsAddresses(z.Zone) && slices.Contains([]string{"", enforce.PerIP, config.PerNetwork}, z.Per))
		if z.Tiers && !z.WantsShadow() {
			tiered[z.Name] = true
		}
	}
	if !s.Traps && a.Session == nil { // these violations come at any time
		found = append(found, checkBan(a.Ban, func(problem, fix string) advice.Advice {
			return advice.Advice{Source: a.Source, Problem: problem, Fix: fix}
		}, all)...)
	}
	isMonth := func(l config.Limit) bool { return time.Duration(l.Window) == limiter.Month }
	long := slices.ContainsFunc(a.Tiers, func(t *config.Tier) bool { return slices.ContainsFunc(t.Limits, isQuota) })
	give(long && len(tiered) > 1, fmt.Sprintf("tier: %d zones have tiers, and each counts on its own: a key has its quota once in each", len(tiered)), "tiers in one zone with a line of match for each; or a zone with limit in the place of the others")
	give(slices.ContainsFunc(all, isMonth) && a.DisableHistory, "history off: nobody can see or bill what was used in a month", "history in the option rate_limit without off, or leave the line out")
	give(slices.ContainsFunc(all, isQuota) && s.Run.Store.CaddyModule().ID.Name() == "memory", "store memory: a restart forgets what was used in a week or a month, and what would be on its invoice", "store sqlite")
	give(slices.ContainsFunc(all, isQuota) && s.Run.Store.CaddyModule().ID.Name() == "sqlite" && isTemporary(s.Run.Settings.Path), "store: the folder is emptied when the machine starts, and what was used in a week or a month is forgotten", "store sqlite /var/lib/caddy/tally.db")
	give(!tells && slices.ContainsFunc(a.Notify, func(n *config.Notify) bool { return n != nil && slices.Contains(n.On, notify.Quota) }), "notify: on quota: no key has a fixed limit of a day or a month", "limit 100_000/month fixed in a tier or a zone per api_key, per key or per everyone; addresses have no quota")
	give(slices.ContainsFunc(a.Notify, func(n *config.Notify) bool {
		return n != nil && n.Template == "" && strings.Contains(n.URL, "discord.com/api/webhooks/")
	}), "notify: Discord refuses messages without content", "template `{\"content\": {{json .Text}}}` into notify")
	if i := slices.IndexFunc(a.BlockLists, func(b *config.BlockList) bool { return strings.Contains(b.Source, "/blob/") }); i >= 0 {
		page := a.BlockLists[i].Source
		give(true, "block_list: this is the page about a file, and not the file", strings.NewReplacer("https://github.com/", "https://raw.githubusercontent.com/", "/-/blob/", "/-/raw/", "/blob/", "/").Replace(page)+" in the place of "+page)
	}
	give(time.Duration(a.StoreTimeout) > longestWait, fmt.Sprintf("store_timeout: while the store can't be used, requests wait %v", time.Duration(a.StoreTimeout)), "store_timeout 100ms; or at most 5s")
	name := s.Run.Store.CaddyModule().ID.Name()
	give(a.StoreTimeout > 0 && time.Duration(a.StoreTimeout) < shortestWait && name != "sqlite" && name != "memory", fmt.Sprintf("store_timeout: no server answers within %v, so that memory decides, with a part of each limit", time.Duration(a.StoreTimeout)), "store_timeout 100ms; or at least 5ms")
	scored := slices.ContainsFunc(s.Zones, func(z config.SitedZone) bool { return z.WantsClients() && !z.WantsShadow() })
	off := a.Reputation != nil && a.Reputation.Disabled
	for _, p := range s.Places {
		if p.Handler == nil || !off && scored || a.Ban != nil || a.Session != nil {
			continue
		}
		if i := slices.IndexFunc(p.Handler.Traps, func(t *config.Trap) bool { return t.Ban == 0 }); i >= 0 {
			found = append(found, advice.Advice{Source: p.Handler.Traps[i].Source, Problem: "trap: a visit costs points only, which have no effect with reputation off, or without a zone per client", Fix: "trap ban 1h in the place of trap; or a zone per client, and no reputation off"})
		}
	}
	if k := a.APIKeys; k != nil && k.DefaultTier != "" && slices.ContainsFunc(a.Tiers, func(t *config.Tier) bool { return t.Name == k.DefaultTier && t.Unlimited }) {
		give(true, fmt.Sprintf("api_keys: a stranger without a key is in tier %s, which is unlimited", k.DefaultTier), "deny in the place of default "+k.DefaultTier+"; or a tier with a limit: service_header in the tier is for your own programs")
	}
	if i := slices.IndexFunc(a.Tiers, func(t *config.Tier) bool {
		return t.ServiceHeader != nil && guessable.MatchString(t.ServiceHeader.Secret)
	}); i >= 0 {
		give(true, fmt.Sprintf("tier %s: service_header: its secret is one of those that are tried first", a.Tiers[i].Name), "{env.SERVICE_TOKEN} in the place of "+a.Tiers[i].ServiceHeader.Secret+"; with what openssl rand -hex 32 prints in the environment")
	}
	give(a.IPv6Prefix > 64, fmt.Sprintf("ipv6_prefix: one machine has all addresses of a /64, and so a count for each /%d", a.IPv6Prefix), "ipv6_prefix 64")
	give(a.Pressure != nil && a.Pressure.Fingerprints > 0 && a.Pressure.Fingerprints < household, "pressure: a family or an office has more browsers than that, and each of its members then has half of the limits", "fingerprints 20")
	give(a.Session != nil && a.Session.MaxPerPrefix > 0 && a.Session.MaxPerPrefix < household, "session: max_sessions_per_prefix: a family or an office has more browsers than that, and no further one gets a session within an hour", "max_sessions_per_prefix 100")
	if a.Session != nil && a.Session.Challenge != nil {
		bits := a.Session.Challenge.Difficulty
		give(bits > 0 && bits < easy, fmt.Sprintf("proof_of_work %d: a program solves it within a millisecond", bits), usualPuzzle)
		give(bits > hard, fmt.Sprintf("proof_of_work %d: a browser needs minutes: 2^%d tries on average", bits, bits), usualPuzzle)
	}
	return found
}

const (
	longestWait  = 5 * time.Second
	shortestWait = 5 * time.Millisecond // of a server
	household    = 5                    // browsers with one address
	easy, hard   = 12, 25               // bits of a puzzle
	usualPuzzle  = "challenge proof_of_work 22; without a number it is the default"
)

// errorCode finds the statuses for which routes of errors are.
var errorCode = regexp.MustCompile(`error\.status_code`)

// checkErrors finds answers to refused requests that don't say so.
func checkErrors(s *config.Survey) (found []advice.Advice) {
	others := func(set routing.Requests) bool {
		e := string(set.Set["expression"])
		return errorCode.MatchString(e) && !strings.Contains(e, "429") && !strings.Contains(e, "400")
	}
	refused := func(set routing.Requests) bool {
		e := string(set.Set["expression"])
		return errorCode.MatchString(e) && strings.Contains(e, "429")
	}
	around := func(p *routing.Place, kind func(routing.Requests) bool) bool {
		return slices.ContainsFunc(p.Around, func(route []routing.Requests) bool { return slices.ContainsFunc(route, kind) })
	}
	for _, v := range s.Views {
		for _, p := range v.Places {
			fix := "respond \"Please slow down.\" 429"
			if !around(p, refused) {
				if slices.ContainsFunc(v.Places, func(other *routing.Place) bool {
					return other.InErrors && other.Site == p.Site && other.Answers() != "" && around(other, refused)
				}) {
					continue
				}
				fix = "handle_errors 429 {, " + fix + " and }, each on a line of its own; the other handle_errors is for what isn't refused"
			}
			if !p.InErrors || !slices.Contains(limited(s), v.Server) {
				continue
			}
			status := 0
			switch module := p.Module.(type) {
			case *caddyhttp.StaticResponse:
				status, _ = strconv.Atoi(string(module.StatusCode))
			case *reverseproxy.Handler:
				if len(module.HandleResponse) == 0 {
					status = http.StatusOK
				}
			}
			if status >= 200 && status < 400 && !around(p, others) {
				found = append(found, advice.Advice{Server: v.Server.Listen, Problem: fmt.Sprintf("handle_errors: a refused request is answered with status %d, so that programs and caches take it for an answer", status), Fix: fix})
			}
		}
	}
	return found
}

// usage are fields with numbers of tokens in the answers of the programs in docs/recipes/llm.md.
var usage = strings.Fields("total_tokens prompt_tokens completion_tokens input_tokens output_tokens totalTokenCount promptTokenCount candidatesTokenCount prompt_eval_count eval_count")

// noField matches parts of paths that no field of an answer has, and spent the fields for what goes in and what comes out.
var (
	noField = regexp.MustCompile(`\[\d*\]|\$\.?|(\.)\d+\b`)
	spent   = [...]*regexp.Regexp{regexp.MustCompile(`(?i)(prompt|input)_?(tokens|eval|tokencount)`), regexp.MustCompile(`(?i)(completion|output|candidates)_?tokens?|\beval_count`)}
)

// checkSettle finds measures of what requests use that find no number, or not all of it.
func checkSettle(p *config.Place, z *config.Zone, limits []config.Limit) []advice.Advice {
	field := func(name string) string { return "settle {" + name + "}" }
	for _, name := range routing.PlaceholderNames(z.Settle) {
		path, isAnswer := strings.CutPrefix(name, bodyfield.Answer)
		words := strings.Split(path, "|")
		last := path[strings.LastIndexByte(path, '.')+1:]
		switch near := slices.IndexFunc(usage, func(u string) bool { return typo.Distance(u, last) <= 2 }); {
		case p.Later.Has(name) && len(p.Later.Made(name)) == 0 && strings.HasPrefix(name, "http.response.header."):
			return []advice.Advice{z.Advice(fmt.Sprintf("settle: a handler or header_down removes the field of {%s} before this handler sees it", name), "header -"+strings.TrimPrefix(name, "http.response.header.")+" before rate_limit, instead of that; it removes the field once rate_limit has seen it")}
		case !isAnswer:
		case noField.MatchString(path):
			return []advice.Advice{z.Advice(fmt.Sprintf("settle: no field has the path %s: elements of arrays have the path of the array", path), field(bodyfield.Answer+noField.ReplaceAllString(path, "")))}
		case len(words) > 1 && spent[0].MatchString(path) && spent[1].MatchString(path):
			return []advice.Advice{z.Advice(fmt.Sprintf("settle: of alternatives the largest counts, and not the sum: %s", path), field(bodyfield.Answer+words[0])+" {"+bodyfield.Answer+words[1]+"}")}
		case len(words) == 1 && near >= 0 && !slices.Contains(usage, last):
			return []advice.Advice{z.Advice(fmt.Sprintf("settle: answers have %s and not %s, so that the cost stays", usage[near], last), field(strings.TrimSuffix(name, last)+usage[near]))}
		}
	}
	if strings.Contains(z.Settle, bodyfield.Answer) && z.ReadBody == 0 && slices.ContainsFunc(z.Fields(), func(name string) bool { return strings.HasPrefix(name, bodyfield.JSON) }) {
		return []advice.Advice{z.Advice("read_body: a body of more than 64 KiB, such as a long question or a picture, is refused with 413", "read_body 1MiB")}
	}
	return checkCheap(z, limits)
}

// isTokens reports whether a zone counts the tokens of answers.
func isTokens(z *config.Zone) bool {
	return strings.Contains(z.Settle, bodyfield.Answer) && strings.Contains(strings.ToLower(z.Settle), "token")
}

// checkCheap finds costs on arrival, and limits, that are far below what requests use.
func checkCheap(z *config.Zone, limits []config.Limit) []advice.Advice {
	for _, l := range limits {
		if z.Settle == config.SettleBytes && l.Amount < 100_000 {
			return []advice.Advice{z.Advice(fmt.Sprintf("settle bytes: the limit is %d bytes per %s", l.Amount, enforce.WindowText(time.Duration(l.Window))), fmt.Sprintf("limit %dMB/%s", l.Amount, enforce.WindowText(time.Duration(l.Window))))}
		}
	}
	cheap := func(text string) bool {
		rule, err := config.NewCostRule(text)
		return err == nil && rule.From == "" && rule.Fixed < 10
	}
	if measured := z.Settle == config.SettleBytes || isTokens(z); measured && cheap(z.Cost) && len(z.Costs) == 0 && z.Cost != "" {
		return []advice.Advice{z.Advice(fmt.Sprintf("cost: until its answer ends a request costs %s, so that any number passes that come at once", z.Cost), "cost 1000; with about what a request uses")}
	}
	return nil
}

// isTemporary reports whether a file was put into a folder that systems empty when they start.
func isTemporary(path string) bool {
	return !siting.Contains(caddy.AppDataDir(), path) && slices.ContainsFunc([]string{"/tmp", "/run", "/var/run", "/dev/shm"},
		func(folder string) bool { return siting.Contains(folder, path) })
}
