package enforce

import (
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/advice"
)

// emptyPlaceholders returns the placeholders that were empty when a zone counted the request by
// them, unless their warning was already given.
func (h *Handler) emptyPlaceholders(v *Verdict) (empty []*LateName) {
	for _, l := range h.Late {
		counts := func(p *Policy) bool { return p.Zone == l.Zone }
		if !l.warned.Load() && isEmpty(v.Repl, l.Name) && slices.ContainsFunc(v.Policies, counts) {
			empty = append(empty, l)
		}
	}
	return empty
}

// watchPlaceholders returns next. If placeholders were empty, it wraps next in a handler that warns
// once if they get set.
func (h *Handler) watchPlaceholders(empty []*LateName, next caddyhttp.Handler) caddyhttp.Handler {
	if empty == nil {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		err := next.ServeHTTP(w, r)
		for _, l := range empty {
			if !isEmpty(repl, l.Name) && !l.warned.Swap(true) {
				_ = h.Config.Advice.Give(h.Log, l.Advice) // a warning is no error
			}
		}
		return err
	})
}

func isEmpty(repl *caddy.Replacer, name string) bool {
	value, _ := repl.GetString(name)
	return value == ""
}

// LateName is a placeholder in a zone's key that may be set too late for the zone.
type LateName struct {
	Zone   *Zone
	Name   string        // without braces
	Advice advice.Advice // for the case that it is set too late
	warned atomic.Bool
}
