package tally

import "slices"

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

// knowsStrangers tells whether the handler also treats those clients by how they
// stand that have no API key.
func (h *Handler) knowsStrangers() bool {
	return len(h.Traps) > 0 || slices.ContainsFunc(h.zones, func(z *Zone) bool { return z.per == perClient })
}

// meet finds out whom a request is from, if that matters, and punishes the client
// if it went into a trap.
func (h *Handler) meet(rq *request) error {
	if !h.clients {
		return nil
	}
	if !h.strangers && rq.whoCalls(h.app).name == "" {
		return nil
	}
	if rq.stands = rq.whoIs().standing(); rq.stands == nil {
		return nil
	}
	for _, t := range h.Traps {
		trapped, err := t.matchers.AnyMatchWithError(rq.http)
		if err != nil {
			return err
		}
		if trapped {
			h.app.punish(rq.stands, t.offense)
		}
	}
	return nil
}
