package tally

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/page"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// suits reports whether a refused request may be answered with the page: a browser has called one
// up, by a link or a form.
func (p *Page) suits(r *http.Request) bool {
	if p.Disabled || !isNavigation(r) {
		return false
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodPost
}

// refuse answers a refused request with the page. retry is how long to wait, or limiter.Never.
func (p *Page) refuse(w http.ResponseWriter, r *http.Request, retry time.Duration, reference string) error {
	answer := htmlAnswer{policy: page.RefusedPolicy, language: languageOf(r)}
	if retry == limiter.Never {
		retry = 0
	}
	shown := page.Refused{Texts: answer.language, Site: p.site(), Retry: retry, Reference: reference}
	if err := shown.Render(&answer.body); err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	return answer.write(w, r, http.StatusTooManyRequests)
}
