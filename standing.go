package tally

// knowsClients tells whether the handler treats clients by how they stand.
func (h *Handler) knowsClients() bool {
	if len(h.Traps) > 0 {
		return true
	}
	for _, z := range h.zones {
		if z.countsClients() {
			return true
		}
	}
	return false
}

// meet finds out whom a request is from, if that matters, and punishes the client
// if it went into a trap.
func (h *Handler) meet(rq *request) error {
	if !h.clients {
		return nil
	}
	if rq.meet(h.app); rq.client == nil {
		return nil
	}
	for _, t := range h.Traps {
		trapped, err := t.matchers.AnyMatchWithError(rq.http)
		if err != nil {
			return err
		}
		if trapped {
			h.app.punish(rq.client, t.offense)
		}
	}
	return nil
}

// meet sets the client that the request is from: the one that its API key names.
// Services and strangers are no clients.
func (rq *request) meet(app *App) {
	c := rq.whoCalls(app)
	if c.name == "" {
		return
	}
	from := len(rq.keys)
	rq.keys = append(append(rq.keys, kindAPIKey), c.name...)
	rq.shorten(from)
	rq.who.Key = rq.keys[from:]
	rq.client = &rq.who
}
