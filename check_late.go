package tally

// This file finds placeholders that are empty when a zone counts by them, and set later.

import (
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// lateFamilies are placeholders that handlers set while a request is on its way.
var lateFamilies = []string{"http.auth.", "http.reverse_proxy.", "http.vars.", "map."}

// provisionLate notes which placeholders are to be looked at again when a request comes
// back. What a config doesn't tell, as of handlers of other modules, shows there.
func (h *Handler) provisionLate() {
	for _, z := range h.zones {
		for _, n := range append(needsOfTexts(z, "per key", z.Key), needsOfTexts(z, "tier", z.Tier)...) {
			if slices.ContainsFunc(lateFamilies, func(family string) bool { return strings.HasPrefix(n.name, family) }) {
				h.run.Late = append(h.run.Late, &enforce.LateName{Zone: z.run, Where: n.where, Name: n.name, Warn: func(problem string) { z.warn(h.log, problem, userDirective) }})
			}
		}
	}
}
