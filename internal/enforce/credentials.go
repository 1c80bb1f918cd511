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
	Service bool   // one of the operator's services: only Tier is known
	Name    string // of the API key's client; "" without a known key
	Tier    string
	denied  *Denial // why the request is denied; or nil

	preflight bool // a CORS preflight, which browsers send without a key
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

// serviceTier returns the tier that a service header gives the request.
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

// otherwise returns the tier of a client without a known key, or the reason for denying it, as an
// option says.
func (k *APIKeys) otherwise(option string, why *Denial) (tier string, denied *Denial) {
	if option == KeyDefault {
		return k.DefaultTier, nil
	}
	return "", why
}

// isPreflight reports whether a request is a CORS preflight, which browsers send without a key. A
// request that a backend may read as one with another method is not a preflight.
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

// Denial is the reason for denying a request because of its API key or its tier.
type Denial struct {
	Status int
	Text   string
	Err    error // for error routes; caddyhttp.Error would inspect the stack
}

// The denials.
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
	Field string // in canonical form
	Hash  [sha256.Size]byte
	Tier  string
}

// serviceVar is the request variable that holds the tier of a service's request.
const serviceVar = "rate_limit.service"

// ApplyServiceHeader notes the tier that a service header gives a request, and removes all such
// headers from it. A header that is sent twice gives no tier.
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

// is reports whether a value is the secret. Its time depends on neither.
func (s *Service) is(value string) bool {
	hash := sha256.Sum256([]byte(value))
	return subtle.ConstantTimeCompare(hash[:], s.Hash[:]) == 1
}

// This file finds the API keys in force: those of the file, and those in the store.

// shared returns the API keys in the store. It returns nil if the configuration has none there, or
// if the store has not been read yet.
func (k *APIKeys) shared() *apikeys.Set {
	if h := k.of.Instance.Load(); h != nil && k.Store {
		return h.Shared.Keys.Load()
	}
	return nil
}

// find returns the client of a key in force, or nil. A key in the store is unknown if its tier
// isn't in this configuration.
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

// denyUnknown returns the denial of a request with an unknown key. Until the keys in the store have
// been read, any key may be one of them.
func (k *APIKeys) denyUnknown() *Denial {
	if k.Store && k.shared() == nil {
		return keysAway
	}
	return unknownKey
}

// follow updates the metric of keys in force when the keys in the store change.
func (k *APIKeys) follow(h *instance.Instance) {
	if k != nil && k.Store {
		h.Shared.Follow(k.of, k.Meter)
		k.Meter()
	}
}

// Meter sets the metric of the number of keys in force.
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

// count sets the metrics of the keys.
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

// changed handles a new version of the file of keys.
func (k *APIKeys) changed(set *apikeys.Set, err error) {
	if err != nil {
		k.of.Log.Error("the file of API keys has changed and can't be used; the keys that were in force are, also those revoked since, until it is put right", zap.Error(err))
		return
	}
	k.of.Log.Info("the file of API keys was read again", zap.Any("keys", set.Tiers(time.Now())))
	k.Meter()
}
