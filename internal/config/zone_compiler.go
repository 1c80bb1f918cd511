package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/settle"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/gate"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// compile checks and compiles the zone.
func (z *zoneCompiler) compile() error {
	z.run = &enforce.Zone{
		Name: z.Name, Key: z.Key, OnEmptyKey: z.OnEmptyKey, IPv4Prefix: z.IPv4Prefix,
		IPv6Prefix: z.IPv6Prefix,
		Terms:      settle.Terms{MaxCost: z.MaxCost}, Tiers: z.Tiers, Tier: z.Tier, DefaultTier: z.DefaultTier,
		RefusesNothing: z.RefusesNothing(),
		Challenges:     z.OnExceeded == OnExceededChallenge, MaxDelay: time.Duration(z.MaxDelay),
		PassField: http.CanonicalHeaderKey(z.PassHeader),
	}
	if z.OnExceeded == OnExceededDelay {
		z.run.Line = gate.Named("delay of " + z.Name)
	}
	z.watch()
	if z.IsPeerForm() {
		if err := z.compilePeerForm(); err != nil {
			return caddyconf.AtSource(fmt.Errorf("setting up rate limit %s: %w", z.Name, err), z.Source)
		}
	}
	for _, step := range []func() error{
		z.checkName,
		z.checkFields,
		z.compileKey,
		z.compileCost,
		z.compileCount,
		z.compileSettle,
		z.compileWhen,
		z.checkBan,
		z.checkCeiling,
		z.checkOnExceeded,
		z.compileScope,
		z.compileConcurrent,
		z.compileSites,
		z.compileShadow,
		z.checkMistakes,
		z.loadMatchers,
	} {
		if err := step(); err != nil {
			return caddyconf.AtSource(fmt.Errorf("zone %q: %w", z.Name, err), z.Source)
		}
	}
	return z.app.Run.Advice.Give(z.log, z.found...)
}

// watch makes the zone ask about what never happens: a request that it matches, and a key or a tier that is set.
func (z *zoneCompiler) watch() {
	unseen := z.Advice("match: no request has been in this zone, while 10,000 others came to its site, or for three days",
		"match /login; with a method and path as the access log has them, or no zone")
	unseen.Kind = advice.Reach
	if len(z.MatcherSetsRaw) > 0 && len(z.When) == 0 {
		z.run.Seen = z.app.Run.Never("zone "+z.id(z.Key), 10_000, 3*24*time.Hour, unseen)
	}
	z.run.Filled = z.filled("key", z.Key, "was empty in 1,000 requests, and never had a value", "per ip; or a placeholder that is set here")
	z.run.Tiered = z.filled("tier", z.Tier, "never named a tier in 1,000 requests", "tiers, for the tier of an API key; or a placeholder that names a tier here")
}

// id identifies what the zone asks about, by the placeholders of an option.
func (z *zoneCompiler) id(text string) string {
	return string(caddyconfig.JSON([]any{z.Name, z.MatcherSetsRaw, text}, nil))
}

// filled returns what watches for a value in the placeholders of an option, or nil if it has none.
func (z *zoneCompiler) filled(option, text, problem, fix string) *enforce.Never {
	if len(routing.PlaceholderNames(text)) == 0 {
		return nil
	}
	empty := z.Advice(option+": "+text+" "+problem, fix)
	empty.Kind = advice.Set
	return z.app.Run.Never(option+" "+z.id(text), 1000, 0, empty)
}

// compilePeerForm translates `window` and `max_events` into a limit. If an exact translation is
// impossible, the limit is stricter.
func (z *zoneCompiler) compilePeerForm() error {
	window := time.Duration(z.Window)
	if window <= 0 {
		return fmt.Errorf(
			"window must be greater than zero, got %v: write a window such as 1m, or limits instead of it", window)
	}
	if z.MaxEvents < 0 {
		return fmt.Errorf("max_events must be at least zero, got %d", z.MaxEvents)
	}
	if err := z.checkPrefixes(); err != nil {
		return err
	}
	if window < limiter.MinWindow {
		z.note(fmt.Sprintf("window: %v is raised to %v, the shortest there is", window, limiter.MinWindow),
			"a longer window, such as 1s")
		window = limiter.MinWindow
	}
	z.run.DeniesAll = z.MaxEvents == 0
	z.effective = []Limit{{Amount: min(max(int64(z.MaxEvents), 1), limiter.MaxAmount), Window: caddy.Duration(window)}}
	return nil
}

func (z *Zone) checkName() error {
	if z.Name == "" {
		return errors.New("a zone needs a name")
	}
	if z.Name == enforce.BeforeTLS {
		return errors.New("this name is that of connections before TLS: write another one")
	}
	return nil
}

// compileKey determines the zone's key.
func (z *zoneCompiler) compileKey() error {
	z.run.Per = z.Per
	switch {
	case z.Per == "":
		z.run.Per = enforce.PerIP
		if z.Tiers {
			z.run.Per = enforce.PerAPIKey
		}
		if z.Key != "" || z.IsPeerForm() {
			z.run.Per = enforce.PerKey
		}
	case z.Per == enforce.PerKey:
		if z.Key == "" {
			return errors.New("per: key needs a value to count by, such as {http.request.header.X-Tenant}")
		}
	case slices.Contains(perKinds, z.Per):
		if z.Key != "" {
			return fmt.Errorf("per: %q and a key exclude one another; per \"key\" counts by the key", z.Per)
		}
		if z.Per == PerNetwork {
			z.run.Per, z.run.IPv4Prefix, z.run.IPv6Prefix = enforce.PerIP, cmp.Or(z.IPv4Prefix,
				24), cmp.Or(z.IPv6Prefix, 48)
		} else if key := placeholderOf[z.Per]; key != "" {
			z.run.Per, z.run.Key = enforce.PerKey, key
		}
	default:
		return fmt.Errorf("per: must be %s, got %q",
			caddyconf.OrList(append(slices.Clone(perKinds), enforce.PerKey)), z.Per)
	}
	if z.run.Per == enforce.PerAPIKey && z.app.APIKeys == nil {
		return errors.New("per: no API keys are configured: write `api_keys` into the global option rate_limit")
	}
	if err := routing.CheckPlaceholders(z.Key); routing.MayBeMapped(err) && z.IsPeerForm() {
		z.note(fmt.Sprintf("key: clients are counted by their address unless a directive sets the placeholder: %v",
			err), "per ip, or a known placeholder")
	} else if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if err := z.app.checkNetworks(z.run.Key); err != nil {
		return err
	}
	if z.run.Per == enforce.PerKey && len(routing.PlaceholderNames(z.run.Key)) == 0 {
		z.run.Per, z.run.Static = enforce.PerEveryone, z.Key
	}
	z.run.EmptyForm = caddy.NewEmptyReplacer().ReplaceAll(z.run.Key, "")
	z.run.OneSpelling, z.run.CountsBody = enforce.NeedsOneSpelling(z.run.Key),
		z.app.survey.bodyUse(namesOf(z.textNeeds()))
	z.compileFields()
	switch z.OnEmptyKey {
	case "", enforce.EmptyIP, enforce.EmptyShare, enforce.EmptySkip, enforce.EmptyDeny:
	default:
		return fmt.Errorf("on_empty_key: must be ip, share, skip or deny, got %q", z.OnEmptyKey)
	}
	return z.checkPrefixes()
}

// checkOptions returns an error about the first option that is invalid by itself.
func (z *Zone) checkOptions() error {
	for _, check := range []func() error{z.checkPlaceholders, z.checkKey, z.checkPrefixes, z.checkFields} {
		if err := check(); err != nil {
			return err
		}
	}
	if _, err := NewCostRule(z.Cost); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	for i := range z.Costs {
		if _, err := z.Costs[i].rule(); err != nil {
			return fmt.Errorf("costs: %w", err)
		}
	}
	if z.Count != nil {
		if err := z.Count.check(); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	for _, check := range []func() error{z.checkSettle, z.checkUnits} {
		if err := check(); err != nil {
			return err
		}
	}
	return matcher.CheckSets(z.MatcherSetsRaw)
}

// checkPlaceholders checks the placeholders of the key. In a zone with window and events, unknown
// ones are accepted (decision 5).
func (z *Zone) checkPlaceholders() error {
	err := routing.CheckPlaceholders(z.Key)
	if err == nil || routing.MayBeMapped(err) && (z.Window != 0 || z.MaxEvents != 0) {
		return nil
	}
	return fmt.Errorf("key: %w", err)
}

func (z *Zone) checkPrefixes() error { return checkPrefixes(z.IPv4Prefix, z.IPv6Prefix) }

func checkPrefixes(ipv4, ipv6 int) error {
	if ipv4 < 0 || ipv4 > 32 {
		return fmt.Errorf("ipv4_prefix must be between 0 and 32, got %d", ipv4)
	}
	if ipv6 < 0 || ipv6 > 128 {
		return fmt.Errorf("ipv6_prefix must be between 0 and 128, got %d", ipv6)
	}
	return nil
}

// zoneCompiler is a zone during compilation.
type zoneCompiler struct {
	*Zone
	ctx       caddy.Context
	app       *Compiler
	log       *zap.Logger
	run       *enforce.Zone
	effective []Limit // the translation of window and max_events
	found     []advice.Advice
}

// The values of scope.
const (
	scopeShared = "shared"
	ScopeSite   = "site"
)

// compileScope determines the sites with separate counts. Sites are distinguished by their names in
// the config and not by the clients' requests: inventing hosts gains nothing (decision 31).
func (z *zoneCompiler) compileScope() error {
	switch z.Scope {
	case "", scopeShared:
		return nil
	case ScopeSite:
	default:
		return fmt.Errorf("scope: must be shared or site, got %q", z.Scope)
	}
	server, ok := z.ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return errors.New("scope: there are sites in HTTP servers only")
	}
	z.run.Sites = map[string]enforce.SiteLimits{"": {}}
	z.run.OtherSites = strings.Join(server.Listen, " ")
	for _, v := range z.app.survey.Views {
		for _, host := range v.Hosts {
			if v.Server == server {
				z.run.Sites[enforce.HostKey(host)] = enforce.SiteLimits{}
			}
		}
	}
	return nil
}

// countedAs returns the name under which a zone counts on a site.
func (z *zoneCompiler) countedAs(site string) string {
	if z.run.Sites == nil {
		return z.Name
	}
	return z.Name + "\x00" + cmp.Or(site, z.run.OtherSites)
}

// Shadow mode in a config.

// WantsShadow reports whether a zone that isn't compiled yet enforces no limit. It ignores the
// limits of tiers.
func (z *Zone) WantsShadow() bool {
	return z.RefusesNothing() || z.Concurrent == nil && len(z.Limits) > 0 &&
		!slices.ContainsFunc(z.Limits, func(l Limit) bool { return !l.Shadow })
}

// mayShadow reports whether a zone that isn't compiled yet may have a shadow limit.
func (z *Zone) mayShadow() bool {
	return z.RefusesNothing() || z.Tiers || z.Tier != "" ||
		slices.ContainsFunc(z.Limits, func(l Limit) bool { return l.Shadow })
}

// compileShadow determines whether the zone refuses anything.
func (z *zoneCompiler) compileShadow() error {
	if z.RefusesNothing() {
		z.run.ShadowRefusal = enforce.StandIn(z.run, "denied")
		z.run.ShadowRefusal.Shadow = true
	}
	enforces := func(s *enforce.LimitSet) bool { return len(s.Policies) > 0 }
	z.run.EnforcesNothing = (z.run.Concurrency == nil || z.RefusesNothing()) &&
		!slices.ContainsFunc(z.run.Sets(), enforces)
	if z.run.EnforcesNothing && !z.Passes() {
		z.log.Info("this zone is in shadow: no limit of it is enforced, so it refuses nothing",
			zap.String("zone", z.Name))
	}
	return nil
}
