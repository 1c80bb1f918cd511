package tally

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("rate_limit", parseHandler)
	httpcaddyfile.RegisterDirectiveOrder("rate_limit", httpcaddyfile.Before, "basic_auth")
	httpcaddyfile.RegisterHandlerDirective("rate_limit_user", parseHandler)
	httpcaddyfile.RegisterDirectiveOrder("rate_limit_user", httpcaddyfile.After, "forward_auth")
	httpcaddyfile.RegisterGlobalOption("rate_limit", parseApp)
}

// parseHandler sets up a handler from the directive. Named matchers are known
// only here.
func parseHandler(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	return h, h.unmarshal(helper.Dispenser, helper.MatcherToken)
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	rate_limit [<matcher>] {
//		zone <name> {
//			match        [<methods...>] <paths...> [<key>=<value>...]
//			match        <matcher>|@<name>
//			match {
//				<matchers...>
//			}
//			per          ip|everyone|client|api_key|key <value>
//			limit        <n>/<duration> [burst <n>] [sliding|fixed|token_bucket] [slots <n>] [timezone <name>] [name <name>]
//			tiers
//			tier         <value> [<default>]
//			cost         <n>|<placeholder> [<matcher>, as for match]
//			max_cost     <n>
//			count        status <statuses...> [hold]
//			on_empty_key ip|share|skip|deny
//			scope        shared|site
//			prefix_ceiling <factor>
//			on_exceeded  refuse|challenge
//			ipv4_prefix  <bits>
//			ipv6_prefix  <bits>
//			reputation   off
//			ban          after <n> violations in <duration> for <duration> [up to <duration>]
//
//			key          <value>
//			window       <duration>
//			events       <n>
//		}
//		exempt         <matcher>, as for match
//		trap           [ban <duration>] <matcher>, as for match
//		trap [ban <duration>] {
//			<matchers...>
//		}
//		headers        draft|legacy|both|off
//		page           off
//		page {
//			name    <text>
//			contact <text>
//		}
//		jitter         <fraction>
//		log_key
//		log_ip
//		disable_metrics
//		sweep_interval <duration>
//		distributed {
//			read_interval  <duration>
//			write_interval <duration>
//			purge_age      <duration>
//		}
//		storage        <module...>
//	}
//
// A zone has one or more of `limit`, or `tiers` or `tier`, or both `window` and `events`, which is how
// `mholt/caddy-ratelimit` writes a sliding limit; `key` is its `per key`. As
// there, a zone in that module's words replaces an earlier one of the same name,
// in the place of the earlier one.
//
// The directive `rate_limit_user` is the same behind basic_auth and forward_auth, for what
// depends on who a user is.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return h.unmarshal(d, unnamedMatchers(d))
}

// unnamedMatchers returns a matcherToken for where no matchers have names.
func unnamedMatchers(d *caddyfile.Dispenser) matcherToken {
	return func() (caddy.ModuleMap, bool, error) {
		set, ok, err := httpcaddyfile.Helper{Dispenser: d}.MatcherToken()
		if err != nil {
			return nil, false, d.Errf("matchers have no names here, got %q: write a block of matchers", d.Val())
		}
		return set, ok, nil
	}
}

func (h *Handler) unmarshal(d *caddyfile.Dispenser, token matcherToken) error {
	for d.Next() {
		h.Source = caddyconf.Source(d)
		if d.NextArg() {
			return h.unexpectedArgument(d)
		}
		for nesting := d.Nesting(); d.NextBlock(nesting); {
			if err := h.unmarshalOption(d, token); err != nil {
				return err
			}
		}
	}
	return nil
}

// unexpectedArgument returns the error about what stands behind the directive and
// its matcher.
func (h *Handler) unexpectedArgument(d *caddyfile.Dispenser) error {
	words := append([]string{d.Val()}, d.RemainingArgs()...)
	write := "write a matcher such as /login, or none, and {"
	switch limit, err := parseLimit(words); {
	case err == nil && limit.Amount > 0:
		write = "write rate_limit {, zone login {, limit " + strings.Join(words, " ") + ", } and }, each on a line of its own"
	case words[0] == "zone":
		write = "write rate_limit {, and the zone on a line of its own"
	case matcher.IsMatcher(words[0]) || matcher.IsMethod(words[0]):
		write = "write rate_limit {, and into its zone match " + strings.Join(words, " ")
	}
	return d.Errf("wrong argument count or unexpected line ending after '%s': rate_limit takes a matcher and a block: %s", words[0], write)
}

// unmarshalOption reads one line or block of the handler. Its error texts, and
// those of the functions named peer…, begin with those of mholt/caddy-ratelimit. So
// is the way an argument too many surfaces: as the next, unrecognized, option.
func (h *Handler) unmarshalOption(d *caddyfile.Dispenser, token matcherToken) error {
	switch d.Val() {
	case "zone":
		return h.unmarshalZone(d, token)
	case "exempt":
		return h.unmarshalExempt(d, token)
	case "trap":
		return h.unmarshalTrap(d, token)
	case "headers":
		return h.unmarshalHeaders(d)
	case "page":
		return unmarshalPage(d, &h.Page)
	case "jitter":
		return h.unmarshalJitter(d)
	case "log_key":
		h.LogKey = true
	case "log_ip":
		h.LogIP = true
	case "disable_metrics":
		h.DisableMetrics = true
	case "sweep_interval":
		return peerDuration(d, &h.SweepInterval, "sweep interval", "sweep interval")
	case "distributed":
		h.Distributed = new(Distributed)
		return h.Distributed.unmarshal(d)
	case "storage":
		return h.unmarshalStorage(d)
	default:
		return unrecognized(d, "unrecognized subdirective '"+d.Val()+"'", handlerWords)
	}
	return nil
}

func (h *Handler) unmarshalZone(d *caddyfile.Dispenser, token matcherToken) error {
	if !d.NextArg() {
		return d.Errf("wrong argument count or unexpected line ending after 'zone': the name is missing: write zone login {")
	}
	z := &Zone{Name: d.Val(), Source: caddyconf.Source(d)}
	if d.NextArg() {
		return d.Errf("zone %q: unexpected %q behind the name: write zone %s {, and what belongs to it on lines of their own", z.Name, d.Val(), z.Name)
	}
	err := z.unmarshal(d, token)
	if err == nil {
		err = h.addZone(d, z)
	}
	if err != nil {
		return fmt.Errorf("zone %q: %w", z.Name, err)
	}
	return nil
}

// addZone appends a zone, or puts it in the place of one that has its name. The
// latter is for configs that rely on it; in our own words it is a mistake.
func (h *Handler) addZone(d *caddyfile.Dispenser, z *Zone) error {
	i := slices.IndexFunc(h.Zones, func(old *Zone) bool { return old.Name == z.Name })
	if i < 0 {
		h.Zones = append(h.Zones, z)
		return nil
	}
	if h.Zones[i].hasOwnWords() || z.hasOwnWords() {
		return d.Err("the name is taken by an earlier zone of this handler: choose another name")
	}
	h.Zones[i] = z
	return nil
}

func (h *Handler) unmarshalExempt(d *caddyfile.Dispenser, token matcherToken) error {
	set, err := unmarshalMatchers(d, token)
	if err != nil {
		return caddyconf.InLine(d, "exempt", err)
	}
	if len(set) == 0 {
		return d.Err("exempt: a matcher is missing: write exempt client_ip 192.0.2.0/24")
	}
	if err := matcher.CheckSet(set); err != nil {
		return d.Errf("exempt: %w", err)
	}
	h.ExemptRaw = append(h.ExemptRaw, set)
	return nil
}

func (h *Handler) unmarshalHeaders(d *caddyfile.Dispenser) error {
	if h.Headers != "" {
		return d.Errf("headers already specified: %s", h.Headers)
	}
	word, err := caddyconf.OneOf(d, "draft", "legacy", "both", "off")
	h.Headers = word
	return err
}

func (h *Handler) unmarshalJitter(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	if h.Jitter != 0 {
		return d.Errf("jitter already specified: %v", h.Jitter)
	}
	jitter, err := strconv.ParseFloat(d.Val(), 64)
	if err != nil {
		return d.Errf("invalid jitter percentage '%s': %v: write a fraction such as 0.2", d.Val(), err)
	}
	if math.IsNaN(jitter) || math.IsInf(jitter, 0) { // JSON has no word for them
		return d.Errf("invalid jitter percentage '%s': expected a fraction such as 0.2", d.Val())
	}
	h.Jitter = jitter
	return nil
}

func (h *Handler) unmarshalStorage(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	name := d.Val()
	module, err := caddyfile.UnmarshalModule(d, "caddy.storage."+name)
	if err != nil && !isModule("caddy.storage."+name) {
		return fmt.Errorf("%w: it would have no effect here: remove the line; for several machines that share counts, write %s", err, sharedStore(name))
	}
	if err != nil {
		return err
	}
	if _, ok := module.(caddy.StorageConverter); !ok {
		return d.Errf("module caddy.storage.%s is not a caddy.StorageConverter", name)
	}
	h.StorageRaw, err = caddyconf.ModuleJSON(d, module, "module", name)
	return err
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
