package tally

// This file finds placeholders that are empty when a zone counts by them, and set later.

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// lateFamilies are placeholders that handlers set while a request is on its way.
var lateFamilies = []string{"http.auth.", "http.reverse_proxy.", "http.vars.", "map."}

// provisionLate notes which placeholders are to be looked at again when a request comes
// back. What a config doesn't tell, as of handlers of other modules, shows there.
func (h *Handler) provisionLate() {
	for _, z := range h.zones {
		for _, n := range append(needsOfTexts(z, "per key", z.Key), needsOfTexts(z, "tier", z.Tier)...) {
			if slices.ContainsFunc(lateFamilies, func(family string) bool { return strings.HasPrefix(n.name, family) }) {
				h.late = append(h.late, &lateName{need: n})
			}
		}
	}
}

// emptyPlaceholders returns the placeholders that are empty though a zone has counted
// the request by them, and that nobody was warned of.
func (h *Handler) emptyPlaceholders(e *evaluation) (empty []*lateName) {
	for _, l := range h.late {
		counts := func(p *policy) bool { return p.zone == l.zone }
		if !l.told.Load() && isEmpty(e.repl, l.name) && slices.ContainsFunc(e.policies, counts) {
			empty = append(empty, l)
		}
	}
	return empty
}

// watchPlaceholders returns next, or if placeholders were empty, a handler around it that
// warns once if they come to be set.
func (h *Handler) watchPlaceholders(empty []*lateName, next caddyhttp.Handler) caddyhttp.Handler {
	if empty == nil {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		err := next.ServeHTTP(w, r)
		for _, l := range empty {
			if !isEmpty(repl, l.name) && !l.told.Swap(true) {
				l.zone.warn(h.log, l.where+": {"+l.name+"} was empty when the zone counted a request, and was set later on its way", userDirective)
			}
		}
		return err
	})
}

func isEmpty(repl *caddy.Replacer, name string) bool {
	value, _ := repl.GetString(name)
	return value == ""
}
