package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/matcher"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Handler is the configuration of a handler `rate_limit`.
type Handler struct {
	// The zones, in the order of evaluation.
	Zones []*Zone `json:"zones,omitempty"`

	// Zones by name, for configs that were written for `mholt/caddy-ratelimit`. They are evaluated
	// after `zones`, tightest first.
	RateLimits map[string]*Zone `json:"rate_limits,omitempty"`

	// Paths that no honest client visits.
	Traps []*Trap `json:"traps,omitempty"`

	// The header fields that show clients their remaining units, on allowed and on refused
	// requests:
	//
	// - `draft` (default): `RateLimit-Policy` and `RateLimit`, as in
	//   draft-ietf-httpapi-ratelimit-headers-11
	// - `legacy`: `X-RateLimit-Limit`, `X-RateLimit-Remaining` and
	//   `X-RateLimit-Reset` (seconds), and if one of several limits has the
	//   longest window, its `X-Quota-Limit`, `X-Quota-Used` and `X-Quota-Reset`
	// - `both`
	// - `legacy epoch`, `both epoch`: the same with `X-RateLimit-Reset` and `X-Quota-Reset` as a
	//   time, in seconds since the Unix epoch by this machine's clock
	// - `off`
	//
	// Retry-After is sent with every refusal that waiting can resolve, regardless of this option.
	// If several handlers decide about one request, the option of the first applies to the limits
	// of all.
	Headers string `json:"headers,omitempty"`

	// Requests that are exempt from all zones of this handler: a list of matcher sets, of which one
	// must match.
	ExemptRaw caddyhttp.RawMatcherSets `json:"exempt,omitempty" caddy:"namespace=http.matchers"`

	// The page that browsers get with a refusal, instead of the app's. Default: that of the
	// `rate_limit` app.
	Page *Page `json:"page,omitempty"`

	// Spreads the return of refused clients: each Retry-After is extended by a random part of up to
	// this fraction. 0.2 means up to 20 %. Default: 0, which extends a long wait by at most a
	// tenth, by less than a slot of the limit, and by no more than a minute.
	Jitter float64 `json:"jitter,omitempty"`

	// Log the key and the address of a client that becomes blocked. Default: false, because they
	// are personal data.
	LogKey bool `json:"log_key,omitempty"`

	// Log the address of a client that becomes blocked, but not its key. Default: false, because it
	// is personal data.
	LogIP bool `json:"log_ip,omitempty"`

	// Keep no metrics for this handler.
	DisableMetrics bool `json:"disable_metrics,omitempty"`

	// Accepted for compatibility with `mholt/caddy-ratelimit` and without
	// effect: see `cleanup_interval` of the `rate_limit` app.
	SweepInterval caddy.Duration `json:"sweep_interval,omitempty"`

	// Accepted for compatibility with `mholt/caddy-ratelimit` and without effect: Caddy processes
	// with the same database file always share their counts.
	Distributed *Distributed `json:"distributed,omitempty"`

	// Accepted for compatibility with `mholt/caddy-ratelimit`: the storage that
	// its `distributed` mode used. The module must exist; it is not used.
	StorageRaw json.RawMessage `json:"storage,omitempty" caddy:"namespace=caddy.storage inline_key=module"`

	// The handler's place in a config file, such as `Caddyfile:12`, for messages. The Caddyfile
	// adapter sets it.
	Source string `json:"source,omitempty"`

	// The addresses of the global options `servers` with listener wrappers or trusted proxies, such
	// as `:443`, for a warning if the server of this handler listens at another one. The Caddyfile
	// adapter sets it.
	WrappedAt []string `json:"wrapped_at,omitempty"`
}

// headerStyles are the values of the option.
var headerStyles = map[string]answer.Style{
	"":       {Draft: true},
	"draft":  {Draft: true},
	"legacy": {Legacy: true},
	"both":   {Draft: true, Legacy: true},
	"off":    {},

	"legacy epoch": {Legacy: true, Epoch: true},
	"both epoch":   {Draft: true, Legacy: true, Epoch: true},
}

func checkHeaders(style string) error {
	if _, ok := headerStyles[style]; !ok {
		return fmt.Errorf("headers: must be draft, legacy, legacy epoch, both, both epoch or off, got %q", style)
	}
	return nil
}

// Unmarshal sets up the handler from Caddyfile tokens, with matchers that token reads.
func (h *Handler) Unmarshal(d *caddyfile.Dispenser, token MatcherToken) error {
	return h.unmarshal(d, token)
}

// unmarshal is Unmarshal with more lines.
func (h *Handler) unmarshal(d *caddyfile.Dispenser, token MatcherToken, more ...grammar.Rule) error {
	for d.Next() {
		h.Source = caddyconf.Source(d)
		if d.NextArg() {
			return h.unexpectedArgument(d)
		}
		if err := h.block(token, more...).Read(d); err != nil {
			return err
		}
	}
	return nil
}

// unexpectedArgument returns the error about the words after the directive and its matcher.
func (h *Handler) unexpectedArgument(d *caddyfile.Dispenser) error {
	words := append([]string{d.Val()}, d.RemainingArgs()...)
	write := "the syntax is rate_limit [<matcher>] {"
	if _, _, err := readRate(words); err == nil {
		write = "write rate_limit {, zone login {, limit " + strings.Join(words, " ") +
			", } and }, each on a line of its own"
	}
	return d.Errf(
		"wrong argument count or unexpected line ending after '%s': rate_limit takes a matcher and a block: %s",
		words[0], write)
}

// block is the syntax of the directive, and more lines. Error texts, and those of the functions named
// peer…, begin like those of mholt/caddy-ratelimit.
func (h *Handler) block(token MatcherToken, more ...grammar.Rule) grammar.Block {
	rules := func() grammar.Rules {
		var epoch bool
		distributed, trap := new(Distributed), &Trap{}
		rules := grammar.Rules{
			grammar.Line("zone <name>", withMatchers(h.unmarshalZone).by(token)).Repeats().With(new(Zone).block(token)),
			grammar.Line("exempt <matcher...>", withMatchers(h.unmarshalExempt).by(token)).Repeats(),
			grammar.Line("trap [ban <duration>] <matcher...>", &trap.Ban, func(d *caddyfile.Dispenser) error { return h.unmarshalTrap(d, trap, token) }).Repeats().At(&trap.Source),
			grammar.Line("headers draft|off", &h.Headers),
			grammar.Line("headers legacy|both [epoch]", &h.Headers, &epoch).Then(func() error {
				if epoch {
					h.Headers += " epoch"
				}
				return nil
			}),
		}
		rules = append(rules, pageRules(&h.Page)...)
		return append(append(rules,
			grammar.Line("jitter <fraction>", h.unmarshalJitter).Repeats(),
			grammar.Line("log_key", &h.LogKey).Repeats(),
			grammar.Line("log_ip", &h.LogIP).Repeats(),
			grammar.Line("disable_metrics", &h.DisableMetrics).Repeats(),
			grammar.Line("sweep_interval <duration>", peerDuration(&h.SweepInterval, "sweep interval", "sweep interval")).Repeats(),
			grammar.Line("distributed").Repeats().Then(func() error { h.Distributed = distributed; return nil }).With(distributed.block()),
			grammar.Line("storage <module...>", h.unmarshalStorage).Repeats()), more...)
	}
	return grammar.Block{Rules: rules, Mistake: mistake, Misplaced: misplaced, Unknown: subdirective}
}

func (h *Handler) unmarshalZone(d *caddyfile.Dispenser, token MatcherToken) error {
	if !d.NextArg() {
		return d.Errf(
			"wrong argument count or unexpected line ending after 'zone': the name is missing: write zone login {")
	}
	z := &Zone{Name: d.Val(), Source: caddyconf.Source(d)}
	if d.NextArg() {
		return d.Errf(
			"zone %q: unexpected %q behind the name: write zone %s {, and what belongs to it on lines of their own",
			z.Name, d.Val(), z.Name)
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

// addZone appends a zone, or replaces the zone with the same name. Replacing is for configs that
// rely on it; in our own grammar it is an error.
func (h *Handler) addZone(d *caddyfile.Dispenser, z *Zone) error {
	i := slices.IndexFunc(h.Zones, func(old *Zone) bool { return old.Name == z.Name })
	if i < 0 {
		h.Zones = append(h.Zones, z)
		return nil
	}
	if h.Zones[i].HasOwnWords() || z.HasOwnWords() {
		return d.Err("the name is taken by an earlier zone of this handler: choose another name")
	}
	z.Replaces = cmp.Or(h.Zones[i].Replaces, h.Zones[i].Source)
	h.Zones[i] = z
	return nil
}

func (h *Handler) unmarshalExempt(d *caddyfile.Dispenser, token MatcherToken) error {
	set, err := requiredMatchers(d, token, "exempt", "exempt client_ip 192.0.2.0/24")
	if err != nil {
		return err
	}
	if err := matcher.CheckSet(set); err != nil {
		return d.Errf("exempt: %w", err)
	}
	h.ExemptRaw = append(h.ExemptRaw, set)
	return nil
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
	if math.IsNaN(jitter) || math.IsInf(jitter, 0) { // JSON can't represent them
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
	module, raw, err := caddyconf.Module(d, "caddy.storage", name, "module")
	if err != nil && !isModule("caddy.storage."+name) {
		return fmt.Errorf(
			"%w: it would have no effect here: remove the line; for several machines that share counts, write %s", err,
			sharedStore(name))
	}
	if err != nil {
		return err
	}
	if _, ok := module.(caddy.StorageConverter); !ok {
		return d.Errf("module caddy.storage.%s is not a caddy.StorageConverter", name)
	}
	h.StorageRaw = raw
	return nil
}
