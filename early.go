package tally

import (
	"errors"
	"net/http"
)

// errTooEarly is why nothing can be counted yet for a request.
var errTooEarly = errors.New("the address that the request is from is not confirmed yet")

// isEarly tells whether a request has come before the handshake of its connection
// was complete, as TLS early data over QUIC. It may be a copy of somebody else's,
// and what it says to be its address may be anybody's: in a single packet nobody
// has to receive an answer there.
func isEarly(r *http.Request) bool { return r.TLS != nil && !r.TLS.HandshakeComplete }

// askAgain has a browser send a request again once the handshake is complete
// (RFC 8470, section 5.2). No error routes see it: what they would say is for people.
func askAgain(w http.ResponseWriter) error {
	forbidAnyStoring(w.Header())
	w.WriteHeader(http.StatusTooEarly)
	return nil
}
