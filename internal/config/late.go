package config

import (
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// noteLate notes the placeholders to check again when a request returns. That detects cases that
// the config doesn't show, such as handlers of other modules.
func (h *handlerCompiler) noteLate(zones []*Zone) {
	for i, z := range zones {
		for _, n := range z.textNeeds() {
			if n.Where != "cost" && slices.ContainsFunc(lateFamilies,
				func(family string) bool { return strings.HasPrefix(n.Name, family) }) && !h.app.survey.Bodies[n.Name] {
				a := z.Advice(n.Where+": {"+n.Name+
					"} was empty when the zone counted a request, and was set later on its way", userDirective)
				h.run.Late = append(h.run.Late, &enforce.LateName{Zone: h.run.Zones[i], Name: n.Name, Advice: a})
			}
		}
	}
}

// lateFamilies are placeholders that handlers set during a request.
var lateFamilies = []string{"http.auth.", "http.reverse_proxy.", "http.vars.", "map."}
