package tally

import (
	"net/http"
	"net/url"
	"strings"
	"time"
)

// credentials is the result of a request's service header or API key.
type credentials struct {
	known   bool
	service bool   // one of the operator's own: tier is all that is known
	name    string // of the client that the API key belongs to; "" without a known key
	tier    string
	err     error // why the request is denied, or nil

	preflight bool // it is a CORS preflight, which a browser sends without a key
}

// authenticate returns the request's credentials. It looks for them once.
func (e *evaluation) authenticate(app *shared) *credentials {
	c := &e.credentials
	if c.known {
		return c
	}
	c.known = true
	if c.tier, c.service = e.serviceTier(app); !c.service && app.APIKeys != nil {
		e.askKey(app)
	}
	return c
}

// serviceTier returns the tier that the request has by a service header.
func (e *evaluation) serviceTier(app *shared) (tier string, ok bool) {
	if len(app.services) > 0 {
		tier, ok = e.vars[serviceVar].(string)
	}
	return tier, ok
}

// askKey looks up the client that the request's API key belongs to.
func (e *evaluation) askKey(app *shared) {
	c, k := &e.credentials, app.APIKeys
	key, err := k.find(e.http, e.repl)
	switch {
	case err != nil:
		c.err = err
	case key == "" && isPreflight(e.http):
		c.tier, c.preflight = k.DefaultTier, true
	case key == "":
		c.tier, c.err = k.otherwise(k.Missing, errNoKey)
	default:
		if client := app.findKey(e.http.Context(), key, time.Now()); client != nil {
			c.name, c.tier = client.Name, client.Tier
		} else {
			c.tier, c.err = k.otherwise(k.Unknown, app.unknownKey())
		}
	}
}

// otherwise returns the tier of a client without a known key, or the error to deny it with, as
// an option says.
func (k *apiKeys) otherwise(option string, denied error) (tier string, err error) {
	if option == keyDefault {
		return k.DefaultTier, nil
	}
	return "", denied
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
