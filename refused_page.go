package tally

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// showsPage reports whether a refused request is answered with the page: a browser has called one
// up, by a link or a form, and no route handles the error.
func (h *Handler) showsPage(r *http.Request) bool {
	switch {
	case h.page.Disabled || h.routed || !isNavigation(r):
		return false
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		return false
	}
	return !answersErrors(r, errRefused)
}

// showPage answers a refused request with the page.
func (h *Handler) showPage(w http.ResponseWriter, r *http.Request, refused *refusal) error {
	answer := htmlAnswer{policy: page.RefusedPolicy, language: languageOf(r)}
	shown := page.Refused{Texts: answer.language, Site: h.page.site(), Reference: refused.id()}
	if refused.retry != limiter.Never {
		shown.Retry = refused.retry
	}
	if err := shown.Render(&answer.body); err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	return answer.write(w, r, http.StatusTooManyRequests)
}
