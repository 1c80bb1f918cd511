package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Tier is a class of clients with the same limits: in each zone with tiers, these are the limits of
// the tier's clients. Each zone counts separately.
type Tier struct {
	// The name of the tier: letters, digits and `.`, `_`, `-`. Required.
	Name string `json:"name,omitempty"`

	// How many requests may pass. A request must be within all of the limits.
	// Required, unless the tier is unlimited.
	Limits []Limit `json:"limits,omitempty"`

	// Pass all requests, and count nothing.
	Unlimited bool `json:"unlimited,omitempty"`

	// A secret that assigns a request to this tier, for calls between your own services.
	ServiceHeader *ServiceHeader `json:"service_header,omitempty"`

	// The tier's place in a config file, such as `Caddyfile:12`, for messages. The Caddyfile
	// adapter sets it.
	Source string `json:"source,omitempty"`
}

// ServiceHeader is a header field whose value identifies a service. The field is removed from every
// request before other handlers and upstreams see it, regardless of its value.
type ServiceHeader struct {
	// The name of the header field. Required.
	Name string `json:"name,omitempty"`

	// The value, at least 16 characters. Placeholders such as `{env.TOKEN}` and
	// `{file./run/secrets/token}` are replaced when the config is loaded; an unset one is an error.
	// Required.
	Secret string `json:"secret,omitempty"`
}

// compileTiers checks the tiers and prepares their service headers.
func (c *Compiler) compileTiers() error {
	seen := make(map[string]bool)
	for _, t := range c.Tiers {
		if t == nil {
			return errors.New("a tier is null; give it a name and limits, or remove it")
		}
		if err := apikeys.CheckTier(t.Name); err != nil {
			return caddyconf.AtSource(err, t.Source)
		}
		if seen[t.Name] {
			return caddyconf.AtSource(fmt.Errorf("tier %q: there are two of this name; merge them, or rename one",
				t.Name), t.Source)
		}
		seen[t.Name] = true
		if err := c.compileTier(t); err != nil {
			return caddyconf.AtSource(fmt.Errorf("tier %q: %w", t.Name, err), t.Source)
		}
	}
	c.Run.Tiers = c.tierNames()
	return nil
}

// check returns an error if it isn't clear what the tier may do.
func (t *Tier) check() error {
	switch {
	case t.Unlimited && len(t.Limits) > 0:
		return errors.New("unlimited excludes limits: leave one out")
	case !t.Unlimited && len(t.Limits) == 0:
		return errors.New("a limit is missing: write limit 5/1m or unlimited")
	}
	return nil
}

func (c *Compiler) compileTier(t *Tier) error {
	if err := t.check(); err != nil {
		return err
	}
	if _, err := compileLimits(t.Name, t.Limits); err != nil {
		return err
	}
	if t.ServiceHeader == nil {
		return nil
	}
	s, err := t.ServiceHeader.compile(t.Name)
	if err != nil {
		return fmt.Errorf("service_header: %w", err)
	}
	for _, other := range c.Run.Services {
		if other.Field == s.Field && other.Hash == s.Hash {
			return fmt.Errorf("service_header: tier %q has the same field and secret; give each a secret of its own",
				other.Tier)
		}
	}
	c.Run.Services = append(c.Run.Services, s)
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

// unknownTier returns the error about the name of a missing tier.
func (a *App) unknownTier(name string) error {
	if len(a.Tiers) == 0 {
		return fmt.Errorf("there is no tier %q: write a `tier` into the global option rate_limit", name)
	}
	return fmt.Errorf("there is no tier %q: expected %s", name, caddyconf.OrList(a.tierNames()))
}

// minServiceSecret is the least length of a service's secret in characters.
const minServiceSecret = 16

func (s *ServiceHeader) compile(tier string) (enforce.Service, error) {
	if err := httpfield.CheckOwn(s.Name); err != nil {
		return enforce.Service{}, err
	}
	secret, err := caddy.NewReplacer().ReplaceOrErr(s.Secret, true, true)
	if err != nil {
		return enforce.Service{}, fmt.Errorf("the secret is not set: %w", err)
	}
	if secret = strings.TrimSpace(secret); len(secret) < minServiceSecret {
		return enforce.Service{}, fmt.Errorf("the secret must have at least %d characters, got %d", minServiceSecret,
			len(secret))
	}
	return enforce.Service{Field: http.CanonicalHeaderKey(s.Name), Hash: sha256.Sum256([]byte(secret)), Tier: tier}, nil
}

// block is the syntax of `tier` in the global option.
func (t *Tier) block() grammar.Block {
	return grammar.Block{
		Check: t.check,
		Rules: func() grammar.Rules {
			header := new(ServiceHeader)
			return grammar.Rules{
				limitRule(func(l Limit) { t.Limits = append(t.Limits, l) }).Repeats(),
				grammar.Line("unlimited", &t.Unlimited),
				grammar.Line("service_header <name> <secret>", &header.Name, &header.Secret).Then(func() error { t.ServiceHeader = header; return nil }),
			}
		},
		Mistake: mistake, Misplaced: misplaced,
	}
}
