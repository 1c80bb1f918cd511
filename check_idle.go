package tally

import "slices"

// This file finds options that have no effect.

// warnIfIdle warns of a handler that does nothing.
func (h *Handler) warnIfIdle() {
	if len(h.run.Zones) == 0 && len(h.Traps) == 0 && h.app.Session == nil {
		h.warn("this handler has no zone, and limits nothing", "zone login {, limit 5/1m and }, each on a line of its own")
	}
}

// checkIdleBan finds a ban that nobody can get.
func checkIdleBan(s *survey) []Advice {
	a := s.app
	apply := func(z sitedZone) bool { return z.wantsClients() && z.Ban == nil && !z.wantsShadow() }
	if a.Ban == nil || s.traps || a.Session != nil || slices.ContainsFunc(s.zones, apply) {
		return nil
	}
	return []Advice{{Source: a.Source, Problem: "ban: nobody is banned, because no zone counts per client or per api_key, and there is no trap",
		Fix: "per client in a zone whose limits lead to bans"}}
}
