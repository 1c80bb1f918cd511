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

// pageRoom is more than a page takes, in bytes.
const pageRoom = 6 << 10

// refuse answers a refused request with the page. retry is how long to wait, or limiter.Never.
func (p *Page) refuse(w http.ResponseWriter, r *http.Request, retry time.Duration, reference string) error {
	if retry == limiter.Never {
		retry = 0
	}
	answer := htmlAnswer{policy: page.RefusedPolicy, language: languageOf(r)}
	var err error
	if answer.body, err = p.refused.Append(make([]byte, 0, pageRoom), answer.language, retry, reference); err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	return answer.write(w, r, http.StatusTooManyRequests)
}
