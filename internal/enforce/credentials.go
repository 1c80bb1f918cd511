package enforce

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// Credentials is the result of a request's service header or API key.
type Credentials struct {
	Known   bool
	Service bool   // one of the operator's own: tier is all that is known
	Name    string // of the client that the API key belongs to; "" without a known key
	Tier    string
	denied  *Denial // why the request is denied, or nil

	preflight bool // it is a CORS preflight, which a browser sends without a key
}

// authenticate returns the request's credentials. It looks for them once.
func (e *Evaluation) authenticate(app *Config) *Credentials {
	c := &e.Credentials
	if c.Known {
		return c
	}
	c.Known = true
	if c.Tier, c.Service = e.serviceTier(app); !c.Service && app.APIKeys != nil {
		e.askKey(app)
	}
	return c
}

// serviceTier returns the tier that the request has by a service header.
func (e *Evaluation) serviceTier(app *Config) (tier string, ok bool) {
	if len(app.Services) > 0 {
		tier, ok = e.Vars[serviceVar].(string)
	}
	return tier, ok
}

// askKey looks up the client that the request's API key belongs to.
func (e *Evaluation) askKey(app *Config) {
	c, k := &e.Credentials, app.APIKeys
	key, denied := k.Find(e.Http, e.Repl)
	switch {
	case denied != nil:
		c.denied = denied
	case key == "" && isPreflight(e.Http):
		c.Tier, c.preflight = k.DefaultTier, true
	case key == "":
		c.Tier, c.denied = k.otherwise(k.Missing, noKey)
	default:
		if client := k.find(e.Http.Context(), key, time.Now()); client != nil {
			c.Name, c.Tier = client.Name, client.Tier
		} else {
			c.Tier, c.denied = k.otherwise(k.Unknown, k.denyUnknown())
		}
	}
}

// otherwise returns the tier of a client without a known key, or why it is denied, as an option
// says.
func (k *APIKeys) otherwise(option string, why *Denial) (tier string, denied *Denial) {
	if option == KeyDefault {
		return k.DefaultTier, nil
	}
	return "", why
}

// isPreflight reports whether a request is a CORS preflight, which browsers send without a
// key. A request that a backend may take for one with another method is not a preflight.
func isPreflight(r *http.Request) bool {
	const asked = "Access-Control-Request-Method"
	if r.Method != http.MethodOptions || r.ContentLength != 0 || len(r.Header["Origin"]) != 1 || len(r.Header[asked]) != 1 {
		return false
	}
	for name := range r.Header {
		if name != asked && strings.Contains(name, "Method") {
			return false
		}
	}
	query, err := url.QueryUnescape(r.URL.RawQuery)
	return err == nil && !strings.Contains(strings.ToLower(query), "method")
}

// Denial is why a request is denied for its API key or its tier.
type Denial struct {
	Status int
	Text   string
	Err    error // that error routes get, which caddyhttp.Error would look at the stack for
}

// What a request can be denied for.
var (
	noKey      = newDenial(http.StatusUnauthorized, "an API key is required")
	unknownKey = newDenial(http.StatusForbidden, "the API key is not known")
	keysAway   = newDenial(http.StatusServiceUnavailable, "the API keys can't be read at the moment")
	TwoKeys    = newDenial(http.StatusBadRequest, "the request has two API keys")
	OddKey     = newDenial(http.StatusBadRequest, "the API key is not a single token")
	ManyPairs  = newDenial(http.StatusBadRequest, "the request has too many parameters or cookies to look for an API key in")
	noTier     = newDenial(http.StatusForbidden, "the client has no tier")
)

func newDenial(status int, text string) *Denial {
	return &Denial{status, text, caddyhttp.HandlerError{StatusCode: status, Err: errors.New(text)}}
}

// Service is a ServiceHeader ready for use.
type Service struct {
	Field string // canonical
	Hash  [sha256.Size]byte
	Tier  string
}

// serviceVar is the request variable that holds the tier of a service's request.
const serviceVar = "rate_limit.service"

// ApplyServiceHeader notes the tier that a request has by a service header, and removes
// all such headers from it. One that is sent twice says nothing.
func (a *Config) ApplyServiceHeader(r *http.Request) {
	for i := range a.Services {
		s := &a.Services[i]
		if values := r.Header[s.Field]; len(values) == 1 && s.is(values[0]) {
			caddyhttp.SetVar(r.Context(), serviceVar, s.Tier)
		}
	}
	for i := range a.Services {
		delete(r.Header, a.Services[i].Field)
	}
}

// is reports whether a value is the secret, in a time that says nothing of either.
func (s *Service) is(value string) bool {
	hash := sha256.Sum256([]byte(value))
	return subtle.ConstantTimeCompare(hash[:], s.Hash[:]) == 1
}

// This file has the API keys that are in force: those of the file, and those in the store.

// shared returns the API keys in the store. It is nil if the configuration has none there, or if
// the store was never read.
func (k *APIKeys) shared() *apikeys.Set {
	if h := k.of.Instance.Load(); h != nil && k.Store {
		return h.Shared.Keys.Load()
	}
	return nil
}

// find returns the client that a key in force belongs to, or nil. A key in the store of a tier
// that this configuration doesn't have is unknown.
func (k *APIKeys) find(ctx context.Context, key string, now time.Time) *apikeys.Client {
	if client := k.Keys.Keys().Find(key, now); client != nil {
		return client
	}
	if h := k.of.Instance.Load(); h != nil && k.Store {
		h.AwaitStore(ctx)
	}
	client := k.shared().Find(key, now)
	if client == nil || !k.of.hasTier(client.Tier) {
		return nil
	}
	return client
}

// TierOf returns the tier of a client's keys in force, or "" if it has none.
func (k *APIKeys) TierOf(client string, now time.Time) string {
	if k == nil {
		return ""
	}
	if tier := k.Keys.Keys().TierOf(client, now); tier != "" {
		return tier
	}
	return k.shared().TierOf(client, now)
}

// denyUnknown returns why a request with an unknown key is denied. While the keys in
// the store were never read, any key may be one of them.
func (k *APIKeys) denyUnknown() *Denial {
	if k.Store && k.shared() == nil {
		return keysAway
	}
	return unknownKey
}

// follow keeps the metric of keys in force when those in the store change.
func (k *APIKeys) follow(h *instance.Instance) {
	if k != nil && k.Store {
		h.Shared.Follow(k.of, k.Meter)
		k.Meter()
	}
}

// Meter sets the metric of how many keys are in force.
func (k *APIKeys) Meter() {
	now := time.Now()
	counts := k.Keys.Keys().Tiers(now)
	for tier, n := range k.shared().Tiers(now) {
		if k.of.hasTier(tier) {
			counts[tier] += n
		}
	}
	meter.SetAPIKeys(counts, k.of.Tiers)
}

// Open reads the file of API keys, if there is one, for a config with the tiers.
func (k *APIKeys) Open(path string, of *Config) (err error) {
	k.of = of
	k.Keys, err = apikeys.Open(path, of.Tiers, k.changed)
	return err
}

// count reports the keys there are.
func (k *APIKeys) count() {
	if k == nil {
		meter.SetAPIKeys(nil, nil)
		return
	}
	if k.Keys.Keys() == nil && !k.Store {
		k.of.Log.Warn("there is no file of API keys yet; until there is, all keys are unknown", zap.String("file", k.Keys.Path()))
	}
	k.Meter()
}

// changed reports that the file of keys was read again.
func (k *APIKeys) changed(set *apikeys.Set, err error) {
	if err != nil {
		k.of.Log.Error("the file of API keys has changed and can't be used; the keys that were in force are, also those revoked since, until it is put right", zap.Error(err))
		return
	}
	k.of.Log.Info("the file of API keys was read again", zap.Any("keys", set.Tiers(time.Now())))
	k.Meter()
}
