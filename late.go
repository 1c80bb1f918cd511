package tally

import (
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// emptyPlaceholders returns the placeholders that are empty though a zone has counted
// the request by them, and that nobody was warned of.
func (h *enforcer) emptyPlaceholders(e *evaluation) (empty []*lateName) {
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
func (h *enforcer) watchPlaceholders(empty []*lateName, next caddyhttp.Handler) caddyhttp.Handler {
	if empty == nil {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		err := next.ServeHTTP(w, r)
		for _, l := range empty {
			if !isEmpty(repl, l.name) && !l.told.Swap(true) {
				l.warn(l.where + ": {" + l.name + "} was empty when the zone counted a request, and was set later on its way")
			}
		}
		return err
	})
}

func isEmpty(repl *caddy.Replacer, name string) bool {
	value, _ := repl.GetString(name)
	return value == ""
}

// lateName is a placeholder that a zone counts by, and that may be set too late for it.
type lateName struct {
	zone  *zone
	where string // the option
	name  string // without braces
	warn  func(problem string)
	told  atomic.Bool
}
