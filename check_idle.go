package tally

import "slices"

// This file finds options that have no effect.

// warnIfIdle warns of a handler that does nothing.
func (h *Handler) warnIfIdle() {
	if len(h.zones) == 0 && len(h.Traps) == 0 && h.app.Session == nil {
		h.warn("this handler has no zone, and limits nothing", "zone login {, limit 5/1m and }, each on a line of its own")
	}
}

// warnOfIdleBan warns of a ban that nobody can get.
func (a *App) warnOfIdleBan(s *survey) {
	apply := func(z sitedZone) bool { return z.wantsClients() && z.Ban == nil && !z.wantsShadow() }
	if a.Ban == nil || s.traps || a.Session != nil || slices.ContainsFunc(s.zones, apply) {
		return
	}
	a.warn("ban: nobody is banned, because no zone counts per client or per api_key, and there is no trap",
		"per client in a zone whose limits lead to bans")
}
