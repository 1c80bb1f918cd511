package enforce

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
)

// Credentials is the result of a request's service header or API key.
type Credentials struct {
	Known   bool
	Service bool   // one of the operator's services: only Tier is known
	Name    string // of the API key's client; "" without a known key
	Tier    string
	Denied  *answer.Denial // why the request is denied; or nil

	preflight bool // a CORS preflight, which browsers send without a key
}

// authenticate returns the request's credentials. It looks for them once.
func (e *Evaluation) authenticate(cfg *Config) *Credentials {
	c := &e.Credentials
	if c.Known {
		return c
	}
	c.Known = true
	if c.Tier, c.Service = cfg.serviceTier(e.Vars); !c.Service && cfg.APIKeys != nil {
		c.ask(cfg.APIKeys, e.Http, e.Repl)
	}
	return c
}

// serviceTier returns the tier that a service header gives a request with these variables.
func (cfg *Config) serviceTier(vars map[string]any) (tier string, ok bool) {
	if len(cfg.Services) > 0 {
		tier, ok = vars[serviceVar].(string)
	}
	return tier, ok
}

// ask looks up the client that the request's API key belongs to.
func (c *Credentials) ask(k *APIKeys, r *http.Request, repl *caddy.Replacer) {
	key, denied := k.Find(r, repl)
	switch {
	case denied != nil:
		c.Denied = denied
	case key == "" && isPreflight(r):
		c.Tier, c.preflight = k.DefaultTier, true
	case key == "":
		c.Tier, c.Denied = k.otherwise(k.Missing, noKey)
	default:
		if client := k.find(r.Context(), key, time.Now()); client != nil {
			c.Name, c.Tier = client.Name, client.Tier
		} else {
			c.Tier, c.Denied = k.otherwise(k.Unknown, k.denyUnknown())
		}
	}
}

// CredentialsOf returns the credentials of a request with a key of a client. Without a key in force
// they are those of an unknown key.
func (a *APIKeys) CredentialsOf(client string, now time.Time) Credentials {
	c := Credentials{Known: true, Name: client, Tier: a.TierOf(client, now)}
	if a != nil && c.Tier == "" {
		c.Name = ""
		c.Tier, c.Denied = a.otherwise(a.Unknown, a.denyUnknown())
	}
	return c
}

// otherwise returns the tier of a client without a known key, or the reason for denying it, as an
// option says.
func (a *APIKeys) otherwise(option string, why *answer.Denial) (tier string, denied *answer.Denial) {
	if option == KeyDefault {
		return a.DefaultTier, nil
	}
	return "", why
}

// challenge returns the value of WWW-Authenticate.
func (a *APIKeys) challenge() string {
	if slices.ContainsFunc(a.From, func(s KeySource) bool { return s.Kind == FromBearer }) {
		return "Bearer"
	}
	return "ApiKey"
}

// isPreflight reports whether a request is a CORS preflight, which browsers send without a key. A
// request that a backend may read as one with another method is not a preflight.
func isPreflight(r *http.Request) bool {
	const asked = "Access-Control-Request-Method"
	if r.Method != http.MethodOptions || r.ContentLength != 0 || len(r.Header["Origin"]) != 1 ||
		len(r.Header[asked]) != 1 {
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

// The denials.
var (
	noKey      = answer.NewDenial(http.StatusUnauthorized, "an API key is required")
	unknownKey = answer.NewDenial(http.StatusForbidden, "the API key is not known")
	keysAway   = answer.NewDenial(http.StatusServiceUnavailable, "the API keys can't be read at the moment")
	TwoKeys    = answer.NewDenial(http.StatusBadRequest, "the request has two API keys")
	OddKey     = answer.NewDenial(http.StatusBadRequest, "the API key is not a single token")
	ManyPairs  = answer.NewDenial(http.StatusBadRequest,
		"the request has too many parameters or cookies to look for an API key in")
	noTier = answer.NewDenial(http.StatusForbidden, "the client has no tier")
)

// Service is a ServiceHeader ready for use.
type Service struct {
	Field string // in canonical form
	Hash  [sha256.Size]byte
	Tier  string
}

// serviceVar is the request variable that holds the tier of a service's request.
const serviceVar = "rate_limit.service"

// applyServiceHeader notes the tier that a service header gives a request, and removes all such
// headers from it. A header that is sent twice gives no tier.
func (cfg *Config) applyServiceHeader(r *http.Request) {
	for i := range cfg.Services {
		s := &cfg.Services[i]
		if values := r.Header[s.Field]; len(values) == 1 && s.is(values[0]) {
			caddyhttp.SetVar(r.Context(), serviceVar, s.Tier)
		}
	}
	for i := range cfg.Services {
		delete(r.Header, cfg.Services[i].Field)
	}
}

// is reports whether a value is the secret. Its time depends on neither.
func (s *Service) is(value string) bool {
	hash := sha256.Sum256([]byte(value))
	return subtle.ConstantTimeCompare(hash[:], s.Hash[:]) == 1
}
