package tally

import (
	"net/http"
	"net/url"
	"strings"
)

// credentials is what a request's service header or API key says of its sender.
type credentials struct {
	known   bool
	service bool   // one of the operator's own: tier is all that is known
	name    string // of the client that the API key belongs to; "" without a known key
	tier    string
	err     error // why the request is denied, or nil

	preflight bool // it is a CORS preflight, which a browser sends without a key
}

// authenticate returns who the request is from. It looks once.
func (e *evaluation) authenticate(app *App) *credentials {
	c := &e.credentials
	if c.known {
		return c
	}
	c.known = true
	if c.tier, c.service = e.serviceTier(app); !c.service && app.APIKeys != nil {
		e.askKey(app.APIKeys)
	}
	return c
}

// serviceTier returns the tier that the request has by a service header.
func (e *evaluation) serviceTier(app *App) (tier string, ok bool) {
	if len(app.services) > 0 {
		tier, ok = e.vars[serviceVar].(string)
	}
	return tier, ok
}

// askKey settles whom the API key of a request belongs to.
func (e *evaluation) askKey(k *APIKeys) {
	c := &e.credentials
	key, err := k.find(e.http, e.repl)
	switch {
	case err != nil:
		c.err = err
	case key == "" && isPreflight(e.http):
		c.tier, c.preflight = k.DefaultTier, true
	case key == "":
		c.tier, c.err = k.otherwise(k.Missing, errNoKey)
	default:
		if client := k.keys.Keys().Find(key); client != nil {
			c.name, c.tier = client.Name, client.Tier
		} else {
			c.tier, c.err = k.otherwise(k.Unknown, errUnknownKey)
		}
	}
}

// otherwise returns what an option says of a client without a known key.
func (k *APIKeys) otherwise(option string, denied error) (tier string, err error) {
	if option == keyDefault {
		return k.DefaultTier, nil
	}
	return "", denied
}

// isPreflight reports whether a browser asks whether a page of another origin may send a
// request (CORS). It never shows a key by that. What may be taken for a request with
// another method is none.
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
