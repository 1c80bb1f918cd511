package config

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Advice describes a problem in a config and its fix. Checks return it.
type Advice struct {
	Problem string   // the problem and its consequences
	Fix     string   // the replacement
	Zone    string   // the zone's name, or ""
	Handler string   // the handler's name, if it isn't one of ours, or ""
	Server  []string // the server's addresses, or none
	Source  string   // the place in a config file, or ""
	Refused bool     // the config can't work: the problem is an error
}

// err returns the advice as a config error.
func (a Advice) err() error {
	err := fmt.Errorf("%s; write %s", a.Problem, a.Fix)
	if a.Zone != "" {
		err = fmt.Errorf("zone %q: %w", a.Zone, err)
	}
	return caddyconf.AtSource(err, a.Source)
}

// log writes a warning.
func (a Advice) log(log *zap.Logger) {
	var fields []zap.Field
	for _, f := range [][2]string{{"write", a.Fix}, {"zone", a.Zone}, {"handler", a.Handler}, {"at", a.Source}} {
		if f[1] != "" {
			fields = append(fields, zap.String(f[0], f[1]))
		}
	}
	if len(a.Server) > 0 {
		fields = append(fields, zap.Strings("server", a.Server))
	}
	log.Warn(a.Problem, fields...)
}

// give logs each advice, or returns an error for the first one that is more than a warning.
func give(log *zap.Logger, all []Advice) error {
	if i := slices.IndexFunc(all, func(a Advice) bool { return a.Refused }); i >= 0 {
		return all[i].err()
	}
	for _, a := range all {
		a.log(log)
	}
	return nil
}

func (z *Zone) advice(problem, fix string) Advice {
	return Advice{Problem: problem, Fix: fix, Zone: z.Name, Source: z.Source}
}

func (h *Handler) advice(problem, fix string) Advice {
	return Advice{Problem: problem, Fix: fix, Source: h.Source}
}

// warn warns of a problem in the zone.
func (z *Zone) warn(log *zap.Logger, problem, write string) { z.advice(problem, write).log(log) }

// warn warns of a problem in the handler outside its zones.
func (h *handlerCompiler) warn(problem, write string) { h.advice(problem, write).log(h.log) }

// warn warns of a problem in the global option.
func (c *Compiler) warn(problem, write string) {
	Advice{Problem: problem, Fix: write, Source: c.Source}.log(c.log)
}

// configChecks are the checks of the whole config. Each is a function of the survey alone.
var configChecks = []func(*survey) []Advice{
	checkOrder, checkOutcomes, checkPeers, checkLooseProxies, checkPlainHTTP, checkIdleBan, checkNames, checkMentions,
	checkReach, checkEverything, checkLimits, checkChallenges, checkUntrusted, checkCase,
}

// checkConfig surveys and checks the whole config, once: when its first handler is compiled, before
// any of our modules is loaded, since loading discards the raw JSON.
func (h *handlerCompiler) checkConfig(ctx caddy.Context) error {
	if h.app.survey != nil {
		return nil
	}
	h.app.survey, h.app.Run.Used = newSurvey(ctx, h.app.App), true
	var found []Advice
	for _, check := range configChecks {
		found = append(found, check(h.app.survey)...)
	}
	for _, p := range h.app.survey.places {
		enforce.KeepFields(p.server.Routes, p.server.Errors)
	}
	return give(h.app.log, found)
}

// The next functions find keys that are probably unintended.

// checkKeyMeant returns an error about a key that must be a mistake, and warns of a key that
// probably is one.
func (z *zoneCompiler) checkKeyMeant() error {
	if err := z.checkKey(); err != nil {
		return z.mistake(err)
	}
	if problem, write := z.doubtfulKey(); problem != "" {
		z.warn(problem, write)
	}
	return nil
}

// checkKey returns an error about a key that is almost certainly a mistake.
func (z *Zone) checkKey() error {
	names := placeholder.Names(z.Key)
	for _, name := range names {
		switch {
		case name == "http.request.remote":
			return &matcher.MistakeError{Problem: "key: {" + name + "} has the port in it, which is another for every connection, so that nobody is limited", Fix: "per ip, or key {http.request.remote.host}"}
		case placeholder.IsFleeting(name):
			return &matcher.MistakeError{Problem: "key: {" + name + "} changes from one request or connection to the next, so that nobody is limited", Fix: "per ip"}
		}
	}
	if len(names) > 0 {
		return nil
	}
	switch key := strings.ToLower(z.Key); {
	case strings.ContainsAny(key, "{}$") && !strings.Contains(key, `\`):
		return fmt.Errorf("key: %q has no placeholder in it, so that everybody shares one count: is a brace missing? write key {http.request.header.X-Tenant}, or per ip", z.Key)
	case slices.Contains([]string{"ip", "client", "api_key", "remote", "remote_ip", "remote_host", "remote_addr", "client_ip", "address", "user", "session", "header", "host", "path", "uri", "method"}, key),
		isAddress(key):
		return &matcher.MistakeError{Problem: fmt.Sprintf("key: %q has no placeholder in it, so that everybody shares one count", z.Key), Fix: keyInsteadOf(key)}
	}
	return nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// keyInsteadOf returns the probably intended key for a bare word.
func keyInsteadOf(word string) string {
	if write := insteadOfPer([]string{word}); !strings.Contains(write, "<value>") {
		return write
	}
	return "per ip, or a placeholder such as key {http.request.header.X-Tenant}"
}

// addressFields are header fields in which proxies send the client's address, and clients send
// anything.
var addressFields = []string{"X-Forwarded-For", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip", "Forwarded"}

// asSent are placeholders for which a client can invent any number of values that are equivalent to
// a backend.
var asSent = []string{
	"http.request.uri", "http.request.uri.query", "http.request.uri.prefixed_query", "http.request.orig_uri",
	"http.request.orig_uri.query",
}

// doubtfulKey returns the problem of a key that is doubtful but may be intended, and its fix; or
// "".
func (z *Zone) doubtfulKey() (problem, write string) {
	for _, name := range placeholder.Names(z.Key) {
		if slices.Contains(asSent, name) {
			return fmt.Sprintf("key: {%s} is what the client sends: it gets another limit with every ?x=1 that it adds", name),
				"key {http.request.uri.path} with a second zone per ip, or per ip alone"
		}
		field, ok := strings.CutPrefix(name, "http.request.header.")
		if ok && slices.ContainsFunc(addressFields, func(f string) bool { return strings.EqualFold(f, field) }) {
			return fmt.Sprintf("key: {%s} is what the client sends: it gets another limit with every other value that it makes up", name),
				"per ip, and trusted_proxies in the global option servers"
		}
	}
	if z.Per == enforce.PerKey && len(placeholder.Names(z.Key)) == 0 {
		return fmt.Sprintf("key: %q has no placeholder in it: everybody shares one count", z.Key), "per everyone"
	}
	return "", ""
}

// checkCosts finds zones that no request can pass, or that count nothing, because of their costs.
func (z *zoneCompiler) checkCosts() []Advice {
	if z.run.DeniesAll || len(z.run.Costs) > 0 || z.run.Cost.From != "" {
		return nil
	}
	if z.run.Cost.Fixed == 0 {
		return []Advice{z.advice("cost: no request uses up anything, so the zone limits nobody", "a cost of at least 1, or costs with matchers for the requests that count")}
	}
	for _, set := range z.run.Sets() {
		for _, p := range slices.Concat(set.Policies, set.Shadows) {
			if p.Capacity() < z.run.Cost.Fixed {
				return []Advice{z.advice(fmt.Sprintf("cost: every request costs %d, and the limit %q never has more than %d, so all %s refused", z.run.Cost.Fixed, p.Name, p.Capacity(), areOrWouldBe(p)),
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

// The next functions find options without effect.

// warnIfIdle warns of a handler without effect.
func (h *handlerCompiler) warnIfIdle() {
	if len(h.run.Zones) == 0 && len(h.Traps) == 0 && h.app.Session == nil {
		h.warn("this handler has no zone, and limits nothing", "zone login {, limit 5/1m and }, each on a line of its own")
	}
}

// checkIdleBan finds a ban that can't occur.
func checkIdleBan(s *survey) []Advice {
	a := s.app
	apply := func(z sitedZone) bool { return z.wantsClients() && z.Ban == nil && !z.wantsShadow() }
	if a.Ban == nil || s.traps || a.Session != nil || slices.ContainsFunc(s.zones, apply) {
		return nil
	}
	return []Advice{{Source: a.Source, Problem: "ban: nobody is banned, because no zone counts per client or per api_key, and there is no trap",
		Fix: "per client in a zone whose limits lead to bans"}}
}

// The next functions find options that are unsafe over plain HTTP.

// checkPlainHTTP finds sessions and traps on servers that speak plain HTTP.
func checkPlainHTTP(s *survey) (found []Advice) {
	session := s.app.Session != nil
	for _, p := range s.places {
		if p.handler == nil || len(p.server.TLSConnPolicies) > 0 {
			continue
		}
		if session {
			session = false // once is enough
			found = append(found, Advice{Problem: "sessions over plain HTTP can be read and taken over on the way; use HTTPS, here or at a proxy in front"})
		}
		for _, t := range p.handler.Traps {
			if t.Ban != 0 || s.app.Ban != nil {
				found = append(found, Advice{Source: t.Source, Problem: "trap: over plain HTTP browsers don't say that a page of another site leads them into a trap, so it can have its visitors banned",
					Fix: "an https:// site, here or at a proxy in front; or a trap without a ban"})
				break
			}
		}
	}
	return found
}

// The next functions find options that see a proxy's address instead of the client's, and servers
// whose clients can choose their address.

// checkPeers finds options that use the peer's address on a server behind proxies: it is the same
// for all clients.
func checkPeers(s *survey) (found []Advice) {
	for _, p := range s.places {
		if p.handler != nil && trustsProxies(p.server) {
			found = append(found, p.checkPeers()...)
		}
	}
	return found
}

func (p *place) checkPeers() (found []Advice) {
	const problem, write = ": remote_ip is the address of the proxy and not of the client, because this server has trusted_proxies", "client_ip in the place of remote_ip"
	if hasMatcher(p.handler.ExemptRaw, "remote_ip") {
		found = append(found, p.handler.advice("exempt"+problem, write))
	}
	for _, t := range p.handler.Traps {
		if hasMatcher(t.MatcherSetsRaw, "remote_ip") {
			found = append(found, Advice{Problem: "trap" + problem, Fix: write, Source: t.Source})
		}
	}
	for _, z := range p.zones {
		if hasMatcher(z.MatcherSetsRaw, "remote_ip") || slices.ContainsFunc(z.Costs, func(c Cost) bool { return hasMatcher(c.MatcherSetsRaw, "remote_ip") }) {
			found = append(found, z.advice("match"+problem, write))
		}
		if slices.Contains(placeholder.Names(z.Key), "http.request.remote.host") {
			found = append(found, z.advice("key: {http.request.remote.host} is the address of the proxy, because this server has trusted_proxies, so that all clients behind it share one count",
				"per ip, or key {client_ip}"))
		}
	}
	return found
}

// hasMatcher reports whether matcher sets contain a matcher with a name.
func hasMatcher(sets caddyhttp.RawMatcherSets, name string) bool {
	return slices.ContainsFunc(sets, func(set caddy.ModuleMap) bool {
		var negated caddyhttp.RawMatcherSets
		if set["not"] != nil {
			_ = json.Unmarshal(set["not"], &negated) // loading reports any error
		}
		return set[name] != nil || hasMatcher(negated, name)
	})
}

// checkLooseProxies finds servers that accept an address from the client, if their proxies append
// to the field that they receive.
func checkLooseProxies(s *survey) (found []Advice) {
	for server := range s.limited() {
		// proxies replace other fields, such as Cloudflare's own
		takesFirst := server.ClientIPHeaders == nil || slices.ContainsFunc(server.ClientIPHeaders, func(field string) bool { return !enforce.IsSingle(field) })
		if server.TrustedProxiesStrict == 0 && trustsProxies(server) && takesFirst {
			found = append(found, Advice{Server: server.Listen, Fix: enforce.StrictProxies,
				Problem: "this server trusts proxies, and takes the first address of X-Forwarded-For: behind a proxy that appends to it, as most do, clients can write that themselves, and be whoever they like"})
		}
	}
	return found
}

// limited returns the servers with handlers that do anything, each once.
func (s *survey) limited() iter.Seq[*caddyhttp.Server] {
	return func(yield func(*caddyhttp.Server) bool) {
		seen := make(map[*caddyhttp.Server]bool)
		for _, p := range s.places {
			idle := p.handler == nil || len(p.zones) == 0 && len(p.handler.Traps) == 0 && s.app.Session == nil
			if idle || seen[p.server] {
				continue
			}
			if seen[p.server] = true; !yield(p.server) {
				return
			}
		}
	}
}

// trustsProxies reports whether a server has trusted proxies. The field is unexported.
func trustsProxies(server *caddyhttp.Server) bool {
	source := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	return server.TrustedProxiesUnix || server.TrustedProxiesRaw != nil ||
		source.IsValid() && source.Kind() == reflect.Interface && !source.IsNil()
}

// The next functions find limits that are never reached, because another one always is reached
// first.

// checkLimits finds limits of zones and tiers that are never reached.
func checkLimits(s *survey) (found []Advice) {
	seen := make(map[string]bool) // a snippet may be in several sites
	for _, z := range s.zones {
		if problem, fix := neverReached(z.Limits); problem != "" && !seen[z.Source+problem] {
			seen[z.Source+problem] = z.Source != ""
			found = append(found, z.advice(problem, fix))
		}
	}
	for _, t := range s.app.Tiers {
		if problem, fix := neverReached(t.Limits); problem != "" {
			found = append(found, Advice{Problem: fmt.Sprintf("tier %q: %s", t.Name, problem), Fix: fix, Source: t.Source})
		}
	}
	return found
}

// neverReached returns the problem of a limit that is never reached, and its fix; or "".
func neverReached(limits []Limit) (problem, fix string) {
	for i, one := range limits {
		for j, other := range limits {
			a, errA := one.compile()
			b, errB := other.compile()
			if i == j || errA != nil || errB != nil || one.Shadow || other.Shadow || one.Timezone != other.Timezone || !contains(a, b) || i < j && contains(b, a) {
				continue
			}
			first, second := enforce.LimitText(a), enforce.LimitText(b)
			return fmt.Sprintf("limit: %s is never reached, because %s beside it always refuses before", first, second),
				"limit " + second + " alone, or a larger amount for it"
		}
	}
	return "", ""
}

// contains reports whether all requests that b passes are within a. It is false if that depends on
// more than amounts and windows.
func contains(a, b limiter.Limit) bool {
	if a.Algorithm() != b.Algorithm() || a.Algorithm() == limiter.Fixed && a.Window() != b.Window() {
		return false
	}
	if a.Algorithm() == limiter.TokenBucket {
		return b.Capacity() <= a.Capacity() && perSecondOf(b) <= perSecondOf(a)
	}
	return b.Capacity() <= a.Capacity() && (b.Window() == a.Window() && b.Slots() == a.Slots() || b.Window() >= 2*a.Window())
}

func perSecondOf(l limiter.Limit) float64 { return float64(l.Amount()) / l.Window().Seconds() }
