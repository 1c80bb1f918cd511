package config

// checkIdle finds a handler without effect.
func (h *handlerCompiler) checkIdle() (found []Advice) {
	if len(h.run.Zones) == 0 && len(h.Traps) == 0 && h.app.Session == nil && (h.app.survey.obeyed() == "" || len(h.app.survey.zones) == 0) {
		found = append(found, h.advice("this handler has no zone, and limits nothing", "zone login {, limit 5/1m and }, each on a line of its own"))
	}
	return found
}
