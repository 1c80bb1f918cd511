package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/endpoint"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/stores"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// APIKeys configures the API keys of clients, and the places where requests carry them.
type APIKeys struct {
	// The places where a request may carry its key. A request with different keys there is refused
	// with status 400, and so is one whose key is not a single token: letters, digits and `-._~+/`,
	// with `=` only at the end. Default: the header field `X-Api-Key`.
	From []KeySource `json:"from,omitempty"`

	// The file of keys, as written by `caddy rate-limit key`: the name, tier and hash of each. It
	// is read again after a change, without a reload; if a line is invalid, the previous keys stay
	// in force. While there is no file, all keys are unknown. Default: `rate_limit/api_keys` in
	// Caddy's data directory.
	File string `json:"file,omitempty"`

	// Whether keys are also in the store that several machines share (Redis or
	// Postgres), as written by `caddy rate-limit key --store`: a key that is made or revoked on any
	// machine is made or revoked on all of them within a second. The keys of `file` are in force as
	// well, but on this machine only. Default: false.
	Store bool `json:"store,omitempty"`

	// The action for a request without a key: `deny` it with status 401 (default), or give it the
	// limits of the `default` tier, counted by its address.
	Missing string `json:"missing,omitempty"`

	// The action for a request whose key is neither in the file nor in the store: `deny` it with
	// status 403 (default), or give it the limits of the `default` tier, counted by its address and
	// not by its key, so that invented keys don't help.
	Unknown string `json:"unknown,omitempty"`

	// The tier of requests without a key, or with an unknown one.
	DefaultTier string `json:"default_tier,omitempty"`
}

// KeySource is a place in a request for a key.
type KeySource struct {
	// The kind of place:
	//
	// - `header`: the header field `name`
	// - `bearer`: `Authorization: Bearer …`
	// - `query`: the query parameter `name`. Mind that URLs end up in logs.
	// - `placeholder`: the value of `name`, such as `{http.request.cookie.key}`
	Type string `json:"type,omitempty"`

	// The name of the header field or query parameter, or a text with
	// placeholders.
	Name string `json:"name,omitempty"`
}

// compileAPIKeys checks the option, and reads the file if there is one.
func (c *Compiler) compileAPIKeys() error {
	k := c.APIKeys
	if len(k.From) == 0 {
		k.From = []KeySource{{Type: enforce.FromHeader, Name: "X-Api-Key"}}
	}
	c.Run.APIKeys = &enforce.APIKeys{Store: k.Store, Missing: k.Missing, Unknown: k.Unknown, DefaultTier: k.DefaultTier}
	for i := range k.From {
		source, err := k.From[i].compile()
		if err != nil {
			return fmt.Errorf("from: %w", err)
		}
		c.Run.APIKeys.From = append(c.Run.APIKeys.From, source)
	}
	if err := c.checkDefaultTier(); err != nil {
		return err
	}
	if _, shared := c.Run.Store.(stores.Network); k.Store && !shared {
		return fmt.Errorf("store: the store %s belongs to one machine; leave store out, so that keys are in the file, or use redis or postgres", c.Run.Store.CaddyModule().ID.Name())
	}
	path, err := filepath.Abs(cmp.Or(k.File, DefaultKeyFile()))
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	if err := c.Run.APIKeys.Open(path, c.Run); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	_, noFile := os.Stat(path)
	_, noFolder := os.Stat(filepath.Dir(path)) // without it, the config is probably for another machine
	if k.File != "" && !k.Store && errors.Is(noFile, fs.ErrNotExist) && noFolder == nil {
		c.Run.APIKeys.NoFile = advice.Advice{Source: c.Source, Problem: "api_keys: there is no file " + path + ", so that all keys are unknown",
			Fix: "caddy rate-limit key new NAME TIER --file " + path + ", in a terminal: it makes the file"}
		c.found = append(c.found, c.Run.APIKeys.NoFile)
	}
	c.checkAccess("api_keys: file", path)
	return nil
}

// checkDefaultTier checks the options for requests without a known key.
func (a *App) checkDefaultTier() error {
	k := a.APIKeys
	for _, option := range []struct{ name, value string }{{"missing", k.Missing}, {"unknown", k.Unknown}} {
		if option.value != "" && option.value != enforce.KeyDeny && option.value != enforce.KeyDefault {
			return fmt.Errorf("%s: must be deny or default, got %q", option.name, option.value)
		}
	}
	needed := k.Missing == enforce.KeyDefault || k.Unknown == enforce.KeyDefault
	switch {
	case needed && k.DefaultTier == "":
		return errors.New("a default tier is missing: write `missing default free`, where free is a tier")
	case !needed && k.DefaultTier != "":
		return errors.New("a default tier has no effect unless missing or unknown is default")
	case needed && a.tier(k.DefaultTier) == nil:
		return a.unknownTier(k.DefaultTier)
	}
	return nil
}

func (s *KeySource) compile() (enforce.KeySource, error) {
	in := enforce.KeySource{Kind: s.Type, In: s.Name}
	switch s.Type {
	case enforce.FromHeader:
		err := httpfield.CheckName(s.Name)
		s.Name = http.CanonicalHeaderKey(s.Name)
		return in, err
	case enforce.FromBearer:
		if s.Name != "" {
			return in, fmt.Errorf("bearer takes no name, got %q", s.Name)
		}
		return in, nil
	case enforce.FromQuery:
		if s.Name == "" {
			return in, errors.New("query needs the name of a parameter")
		}
		in.Parameter = endpoint.NewName(s.Name)
		return in, nil
	case enforce.FromPlaceholder:
		if len(routing.PlaceholderNames(s.Name)) == 0 {
			return in, fmt.Errorf("placeholder needs one, such as {http.request.cookie.key}, got %q", s.Name)
		}
		return sourceOfPlaceholder(s.Name), routing.CheckPlaceholders(s.Name)
	}
	return in, fmt.Errorf("must be header, bearer, query or placeholder, got %q", s.Type)
}

// sourceOfPlaceholder returns the place that a placeholder reads. Reading the place itself
// distinguishes two keys from one: Caddy's placeholder would join them, or take the first.
func sourceOfPlaceholder(text string) enforce.KeySource {
	for _, place := range []struct{ kind, family string }{
		{enforce.FromHeader, "{http.request.header."}, {enforce.FromQuery, "{http.request.uri.query."},
		{enforce.FromCookie, "{http.request.cookie."},
	} {
		if name, ok := strings.CutPrefix(text, place.family); ok && strings.IndexByte(name, '}') == len(name)-1 {
			name = name[:len(name)-1]
			return enforce.KeySource{Kind: place.kind, In: name, Parameter: endpoint.NewName(name)}
		}
	}
	return enforce.KeySource{Kind: enforce.FromPlaceholder, In: text}
}

// DefaultKeyFile returns the default path of the file of API keys.
func DefaultKeyFile() string {
	return filepath.Join(caddy.AppDataDir(), stores.DefaultFolder, "api_keys")
}

// block is the syntax of `api_keys`.
func (a *APIKeys) block() grammar.Block {
	return grammar.Block{Rules: func() grammar.Rules {
		tier, from := "", new(KeySource)
		source := func(kind string, line grammar.Rule) grammar.Rule {
			return line.Repeats().Then(func() error {
				from.Type = kind
				checked := *from // a copy, because compile completes it
				_, err := checked.compile()
				a.From = append(a.From, *from)
				return err
			})
		}
		without := func(field *string, value string, line grammar.Rule) grammar.Rule {
			return line.Then(func() error {
				if *field = value; tier != "" && a.DefaultTier != "" && a.DefaultTier != tier {
					return fmt.Errorf("the default tier is %q already, got %q: there is one", a.DefaultTier, tier)
				}
				a.DefaultTier = cmp.Or(tier, a.DefaultTier)
				return nil
			})
		}
		return grammar.Rules{
			source(enforce.FromHeader, grammar.Line("from header <name>", &from.Name)),
			source(enforce.FromBearer, grammar.Line("from bearer")),
			source(enforce.FromQuery, grammar.Line("from query <name>", &from.Name)),
			source(enforce.FromPlaceholder, grammar.Line("from placeholder <value>", &from.Name)),
			grammar.Line("file <path>", &a.File),
			grammar.Line("store", &a.Store),
			without(&a.Missing, enforce.KeyDeny, grammar.Line("missing deny")),
			without(&a.Missing, enforce.KeyDefault, grammar.Line("missing default [<tier>]", &tier)),
			without(&a.Unknown, enforce.KeyDeny, grammar.Line("unknown deny")),
			without(&a.Unknown, enforce.KeyDefault, grammar.Line("unknown default [<tier>]", &tier)),
		}
	}}
}
