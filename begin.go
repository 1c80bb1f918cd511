package tally

import "net/http"

// begin returns the evaluation of a request, which must be released.
func (h *enforcer) begin(r *http.Request) *evaluation {
	e := newEvaluation(r)
	e.handler = h
	if h.addressedBy != nil {
		e.fixClientIP(h.addressedBy)
	}
	if h.app.knowsClients {
		e.attachClient(h.app, h.usesClientPlaceholders)
	}
	return e
}

// isEarly reports whether a request has come before the handshake of its connection
// was complete, as TLS early data over QUIC. It may be a replay, and its address may be
// forged: with a single packet nobody has to receive an answer.
func isEarly(r *http.Request) bool { return r.TLS != nil && !r.TLS.HandshakeComplete }

// attachClient attaches the client to the request, or finds the one that an earlier handler
// has attached. It sets the client's placeholders if the handler's options name them; else
// evaluate does so once the request may pass.
func (e *evaluation) attachClient(app *shared, named bool) {
	c, ok := e.vars[clientVar].(*client)
	if !ok {
		c = newClient(e.http, app)
		e.vars[clientVar] = c
	}
	e.client = c
	if named {
		c.mapPlaceholders(e)
	}
}

func newClient(r *http.Request, app *shared) *client {
	c := &client{app: app, http: r}
	if app.Session != nil {
		c.stripSessionCookie()
	}
	return c
}
