package tally

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/endpoint"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
	"github.com/caddy-tally/caddy-tally/internal/stores"
)

// APIKeys says where clients put their API keys, and which there are.
type APIKeys struct {
	// Where a request may have its key. One that has different keys there is refused
	// with status 400, and so is one whose key is not a single token: letters, digits
	// and `-._~+/`, with `=` only at the end. Default: the header field `X-Api-Key`.
	From []KeySource `json:"from,omitempty"`

	// The file of keys, as `caddy rate-limit key` makes it: name, tier and hash of
	// each. It is read again when it has changed, without a reload; a bad line
	// leaves the keys in force that were. While there is no file, all keys are
	// unknown. Default: `rate_limit/api_keys` in Caddy's data directory.
	File string `json:"file,omitempty"`

	// Whether keys are also in the store that several machines share (Redis, Postgres,
	// MySQL or MariaDB), as `caddy rate-limit key --store` makes them: one that is made
	// or revoked on any machine is so on all within a second. The keys of `file` are in
	// force beside them, on this machine only. Default: false.
	Store bool `json:"store,omitempty"`

	// What to do with a request without a key: `deny` it with status 401
	// (default), or let it have the limits of the `default` tier, counted by its
	// address.
	Missing string `json:"missing,omitempty"`

	// What to do with a request whose key is in no file and not in the store: `deny` it with status
	// 403 (default), or treat it as one of the `default` tier, counted by its
	// address and not by its key, so that inventing keys is no way around.
	Unknown string `json:"unknown,omitempty"`

	// The tier of requests without a key, or with an unknown one.
	DefaultTier string `json:"default_tier,omitempty"`

	run *enforce.APIKeys
}

// KeySource is a place in a request where a key may be.
type KeySource struct {
	// The kind of place:
	//
	// - `header`: the header field `name`
	// - `bearer`: `Authorization: Bearer …`
	// - `query`: the query parameter `name`. Mind that URLs end up in logs.
	// - `placeholder`: what `name` holds, such as `{http.request.cookie.key}`
	Type string `json:"type,omitempty"`

	// The name of the header field or query parameter, or a text with
	// placeholders.
	Name string `json:"name,omitempty"`
}

// provisionAPIKeys checks the option, and reads the file if there is one.
func (a *App) provisionAPIKeys() error {
	k := a.APIKeys
	if len(k.From) == 0 {
		k.From = []KeySource{{Type: enforce.FromHeader, Name: "X-Api-Key"}}
	}
	k.run = &enforce.APIKeys{Store: k.Store, Missing: k.Missing, Unknown: k.Unknown, DefaultTier: k.DefaultTier}
	for i := range k.From {
		source, err := k.From[i].provision()
		if err != nil {
			return fmt.Errorf("from: %w", err)
		}
		k.run.From = append(k.run.From, source)
	}
	if err := a.checkDefaultTier(); err != nil {
		return err
	}
	if _, shared := a.run.Store.(stores.Network); k.Store && !shared {
		return fmt.Errorf("store: the store %s belongs to one machine; leave store out, so that keys are in the file, or use redis, postgres or mysql", a.run.Store.CaddyModule().ID.Name())
	}
	path, err := filepath.Abs(cmp.Or(k.File, defaultKeyFile()))
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	k.run.Keys, err = apikeys.Open(path, a.tierNames(), a.keysChanged)
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	a.warnOfAccess("api_keys: file", path)
	return nil
}

// checkDefaultTier checks what is to become of requests without a known key.
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

func (s *KeySource) provision() (enforce.KeySource, error) {
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
		if len(placeholder.Names(s.Name)) == 0 {
			return in, fmt.Errorf("placeholder needs one, such as {http.request.cookie.key}, got %q", s.Name)
		}
		return sourceOfPlaceholder(s.Name), placeholder.Check(s.Name)
	}
	return in, fmt.Errorf("must be header, bearer, query or placeholder, got %q", s.Type)
}

// sourceOfPlaceholder returns the place that a placeholder reads from. There, two keys can be told
// from one: Caddy's placeholder would join them, or take the first.
func sourceOfPlaceholder(text string) enforce.KeySource {
	for _, place := range []struct{ kind, family string }{
		{enforce.FromHeader, "{http.request.header."}, {enforce.FromQuery, "{http.request.uri.query."}, {enforce.FromCookie, "{http.request.cookie."},
	} {
		if name, ok := strings.CutPrefix(text, place.family); ok && strings.IndexByte(name, '}') == len(name)-1 {
			name = name[:len(name)-1]
			return enforce.KeySource{Kind: place.kind, In: name, Parameter: endpoint.NewName(name)}
		}
	}
	return enforce.KeySource{Kind: enforce.FromPlaceholder, In: text}
}

// countAPIKeys reports the keys there are.
func (a *App) countAPIKeys() {
	k := a.APIKeys
	if k.run.Keys.Keys() == nil && !k.Store {
		a.log.Warn("there is no file of API keys yet; until there is, all keys are unknown", zap.String("file", k.run.Keys.Path()))
	}
	a.run.MeterKeys()
}

// keysChanged tells that the file of keys was read again.
func (a *App) keysChanged(set *apikeys.Set, err error) {
	if err != nil {
		a.log.Error("the file of API keys has changed and can't be used; the keys that were in force are, also those revoked since, until it is put right", zap.Error(err))
		return
	}
	a.log.Info("the file of API keys was read again", zap.Any("keys", set.Tiers(time.Now())))
	a.run.MeterKeys()
}

// defaultKeyFile returns the file of API keys where none is named.
func defaultKeyFile() string {
	return filepath.Join(caddy.AppDataDir(), stores.DefaultFolder, "api_keys")
}
