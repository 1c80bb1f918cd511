package tally

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// Tier is a class of clients that have the same limits: in each zone that has
// tiers, these are the limits of a client of the tier. Each zone counts on its
// own.
type Tier struct {
	// The name of the tier: letters, digits and `.`, `_`, `-`. Required.
	Name string `json:"name,omitempty"`

	// How many requests may pass. A request must be within all of the limits.
	// Required, unless the tier is unlimited.
	Limits []Limit `json:"limits,omitempty"`

	// Let everything pass, and count nothing.
	Unlimited bool `json:"unlimited,omitempty"`

	// A secret that makes a request one of this tier, for calls from one of your
	// services to another.
	ServiceHeader *ServiceHeader `json:"service_header,omitempty"`

	// Where the tier is in a config file, such as `Caddyfile:12`, for messages. The
	// Caddyfile adapter notes it.
	Source string `json:"source,omitempty"`
}

// ServiceHeader is a header field by whose value a service shows who it is. The
// field is removed from every request before other handlers and upstreams see it,
// whatever its value.
type ServiceHeader struct {
	// The name of the header field. Required.
	Name string `json:"name,omitempty"`

	// The value, at least 16 characters. Placeholders such as `{env.TOKEN}` and
	// `{file./run/secrets/token}` are replaced when the config is loaded; it is an
	// error if one of them is not set. Required.
	Secret string `json:"secret,omitempty"`
}

// provisionTiers checks the tiers and prepares their service headers.
func (a *App) provisionTiers() error {
	seen := make(map[string]bool)
	for _, t := range a.Tiers {
		if t == nil {
			return errors.New("a tier is null; give it a name and limits, or remove it")
		}
		if err := apikeys.CheckTier(t.Name); err != nil {
			return caddyconf.AtSource(err, t.Source)
		}
		if seen[t.Name] {
			return caddyconf.AtSource(fmt.Errorf("tier %q: there are two of this name; merge them, or rename one", t.Name), t.Source)
		}
		seen[t.Name] = true
		if err := a.provisionTier(t); err != nil {
			return caddyconf.AtSource(fmt.Errorf("tier %q: %w", t.Name, err), t.Source)
		}
	}
	return nil
}

func (a *App) provisionTier(t *Tier) error {
	switch {
	case t.Unlimited && len(t.Limits) > 0:
		return errors.New("unlimited excludes limits; leave one out")
	case !t.Unlimited && len(t.Limits) == 0:
		return errors.New("needs a limit, such as 5/1m, or unlimited")
	}
	if _, err := compileLimits(t.Name, t.Limits); err != nil {
		return err
	}
	if t.ServiceHeader == nil {
		return nil
	}
	s, err := t.ServiceHeader.provision(t.Name)
	if err != nil {
		return fmt.Errorf("service_header: %w", err)
	}
	for _, other := range a.run.Services {
		if other.Field == s.Field && other.Hash == s.Hash {
			return fmt.Errorf("service_header: tier %q has the same field and secret; give each a secret of its own", other.Tier)
		}
	}
	a.run.Services = append(a.run.Services, s)
	return nil
}

// tierNames returns the names of the tiers, in the order written, or nil.
func (a *App) tierNames() (names []string) {
	for _, t := range a.Tiers {
		names = append(names, t.Name)
	}
	return names
}

// tier returns a tier by its name, or nil.
func (a *App) tier(name string) *Tier {
	i := slices.IndexFunc(a.Tiers, func(t *Tier) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return a.Tiers[i]
}

// unknownTier returns the error about a name that no tier has.
func (a *App) unknownTier(name string) error {
	if len(a.Tiers) == 0 {
		return fmt.Errorf("there is no tier %q: write a `tier` into the global option rate_limit", name)
	}
	return fmt.Errorf("there is no tier %q: expected %s", name, caddyconf.OrList(a.tierNames()))
}

// minServiceSecret is the least number of characters of a service's secret.
const minServiceSecret = 16

func (s *ServiceHeader) provision(tier string) (enforce.Service, error) {
	if err := httpfield.CheckName(s.Name); err != nil {
		return enforce.Service{}, err
	}
	secret, err := caddy.NewReplacer().ReplaceOrErr(s.Secret, true, true)
	if err != nil {
		return enforce.Service{}, fmt.Errorf("the secret is not set: %w", err)
	}
	if secret = strings.TrimSpace(secret); len(secret) < minServiceSecret {
		return enforce.Service{}, fmt.Errorf("the secret must have at least %d characters, got %d", minServiceSecret, len(secret))
	}
	return enforce.Service{Field: http.CanonicalHeaderKey(s.Name), Hash: sha256.Sum256([]byte(secret)), Tier: tier}, nil
}

// unmarshalTier reads a tier:
//
//	tier <name> {
//		limit          <n>/<duration> […]
//		unlimited
//		service_header <name> <secret>
//	}
func (a *App) unmarshalTier(d *caddyfile.Dispenser) error {
	t := &Tier{Source: caddyconf.Source(d)}
	if !d.AllArgs(&t.Name) {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := t.unmarshalOption(d); err != nil {
			return d.Errf("tier %q: %w", t.Name, err)
		}
	}
	switch {
	case t.Unlimited && len(t.Limits) > 0:
		return d.Errf("tier %q: unlimited excludes limits: leave one out", t.Name)
	case !t.Unlimited && len(t.Limits) == 0:
		return d.Errf("tier %q: a limit is missing: write limit 5/1m or unlimited", t.Name)
	}
	a.Tiers = append(a.Tiers, t)
	return nil
}

func (t *Tier) unmarshalOption(d *caddyfile.Dispenser) error {
	option, args := d.Val(), d.RemainingArgs()
	switch option {
	case "limit":
		limit, err := parseLimit(args)
		if err != nil {
			return fmt.Errorf("limit: %w", err)
		}
		t.Limits = append(t.Limits, limit)
	case "unlimited":
		if len(args) > 0 {
			return fmt.Errorf("unlimited takes no value, got %q", args[0])
		}
		t.Unlimited = true
	case "service_header":
		if len(args) != 2 {
			return fmt.Errorf("service_header takes a name and a secret, got %d values: write service_header X-Service-Token {env.SERVICE_TOKEN}", len(args))
		}
		if t.ServiceHeader != nil {
			return fmt.Errorf("service_header is given twice: write it once")
		}
		t.ServiceHeader = &ServiceHeader{Name: args[0], Secret: args[1]}
	case limitShadow:
		return errors.New("shadow stands behind a limit of a tier: write limit 5/1m shadow")
	default:
		return fmt.Errorf("unrecognized option %q: expected limit, unlimited or service_header", option)
	}
	return nil
}

// unmarshalAPIKeys reads the block of API keys:
//
//	api_keys {
//		from    header <name>|bearer|query <name>|placeholder <value>
//		file    <path>
//		store
//		missing deny|default <tier>
//		unknown deny|default [<tier>]
//	}
func (a *App) unmarshalAPIKeys(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	a.APIKeys = new(APIKeys)
	return caddyconf.EachOption(d, a.APIKeys.unmarshalOption, "from")
}

func (k *APIKeys) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "from":
		return k.unmarshalFrom(d)
	case "file":
		return caddyconf.String(d, &k.File)
	case "store":
		k.Store = true
		if d.NextArg() {
			return d.Errf("api_keys: store takes no value, got %q", d.Val())
		}
		return nil
	case "missing":
		return k.unmarshalWithout(d, &k.Missing)
	case "unknown":
		return k.unmarshalWithout(d, &k.Unknown)
	}
	return d.Errf("api_keys: unrecognized option %q: expected from, file, store, missing or unknown", d.Val())
}

func (k *APIKeys) unmarshalFrom(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.Err("api_keys: from: a value is missing: expected header <name>, bearer, query <name> or placeholder <value>")
	}
	s := KeySource{Type: args[0]}
	switch {
	case s.Type != enforce.FromHeader && s.Type != enforce.FromBearer && s.Type != enforce.FromQuery && s.Type != enforce.FromPlaceholder:
		return d.Errf("api_keys: from: must be header, bearer, query or placeholder, got %q", s.Type)
	case s.Type == enforce.FromBearer && len(args) > 1:
		return d.Errf("api_keys: from bearer takes no value, got %q", args[1])
	case s.Type != enforce.FromBearer && len(args) != 2:
		return d.Errf("api_keys: from %s takes one value, got %d", s.Type, len(args)-1)
	case s.Type != enforce.FromBearer:
		s.Name = args[1]
	}
	checked := s // which provision completes, and the config doesn't need
	if _, err := checked.provision(); err != nil {
		return d.Errf("api_keys: from: %w", err)
	}
	k.From = append(k.From, s)
	return nil
}

// unmarshalWithout reads what to do with a request without a known key.
func (k *APIKeys) unmarshalWithout(d *caddyfile.Dispenser, field *string) error {
	option, args := d.Val(), d.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == enforce.KeyDeny:
	case len(args) == 1 && args[0] == enforce.KeyDefault: // of the other option
	case len(args) == 2 && args[0] == enforce.KeyDefault:
		if k.DefaultTier != "" && k.DefaultTier != args[1] {
			return d.Errf("api_keys: %s: the default tier is %q already, got %q: there is one", option, k.DefaultTier, args[1])
		}
		k.DefaultTier = args[1]
	default:
		return d.Errf("api_keys: %s: must be deny or default <tier>, got %q", option, args)
	}
	*field = args[0]
	return nil
}

// checkTier returns an error if the running Caddy doesn't have a tier: a file with a key of
// such a tier would not be used. If no Caddy can tell, it says so to w.
func (at *adminEndpoint) checkTier(w io.Writer, tier string) error {
	address, err := at.determine()
	if err != nil {
		return err
	}
	names, err := askTiers(address)
	switch {
	case err != nil:
		fmt.Fprintf(w, "No running Caddy could be asked whether there is a tier %q: %v.\n", tier, err)
	case len(names) == 0:
		fmt.Fprintf(w, "The Caddy at %s has no tiers yet: add a tier %q to the global option rate_limit.\n", address, tier)
	case !slices.Contains(names, tier):
		return fmt.Errorf("there is no tier %q in the Caddy at %s: write %s; or add it to the global option rate_limit and reload first; --force makes the key all the same", tier, address, caddyconf.OrList(names))
	}
	return nil
}

// maxAnswer bounds what is read of a running Caddy's answer.
const maxAnswer = 16 << 20

// askTiers returns the names of the tiers of the Caddy with an admin address.
func askTiers(address string) (names []string, err error) {
	response, err := caddycmd.AdminAPIRequest(address, http.MethodGet, "/config/", nil, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var config struct {
		Apps struct {
			RateLimit struct {
				Tiers []*Tier `json:"tiers"`
			} `json:"rate_limit"`
		} `json:"apps"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&config); err != nil {
		return nil, fmt.Errorf("reading the config of the Caddy at %s: %w", address, err)
	}
	for _, t := range config.Apps.RateLimit.Tiers {
		if t != nil {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

// completeTier completes the tier of a new key.
func (at *adminEndpoint) completeTier(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	address, err := at.determine()
	if err != nil || len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := askTiers(address) // there are no words then
	return names, cobra.ShellCompDirectiveNoFileComp
}
