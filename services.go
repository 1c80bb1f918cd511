package tally

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// service is a ServiceHeader ready for use.
type service struct {
	field string // canonical
	hash  [sha256.Size]byte
	tier  string
}

// serviceVar is the request variable that holds the tier of a service's request.
const serviceVar = "rate_limit.service"

// applyServiceHeader notes the tier that a request has by a service header, and removes
// all such headers from it. One that is sent twice says nothing.
func (a *shared) applyServiceHeader(r *http.Request) {
	for i := range a.services {
		s := &a.services[i]
		if values := r.Header[s.field]; len(values) == 1 && s.is(values[0]) {
			caddyhttp.SetVar(r.Context(), serviceVar, s.tier)
		}
	}
	for i := range a.services {
		delete(r.Header, a.services[i].field)
	}
}

// is reports whether a value is the secret, in a time that says nothing of either.
func (s *service) is(value string) bool {
	hash := sha256.Sum256([]byte(value))
	return subtle.ConstantTimeCompare(hash[:], s.hash[:]) == 1
}
