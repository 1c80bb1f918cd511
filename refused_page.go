package tally

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/page"
)

// suits reports whether a refused request may be answered with the page: a browser has called one
// up, by a link or a form.
func (p *refusedPages) suits(r *http.Request) bool {
	if p.Disabled || !isNavigation(r) {
		return false
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodPost
}

// pageRoom is more than a page takes, in bytes.
const pageRoom = 6 << 10

// shown is the part of a refusal that the page shows.
type shown struct {
	status    int
	retry     time.Duration // how long to wait, or limiter.Never
	reference page.Reference
}

// shown returns what the page shows of a refusal.
func (r *refusal) shown() shown { return shown{r.status(), r.retry, r.references()} }

// refuse answers a refused request with the page.
func (p *refusedPages) refuse(w http.ResponseWriter, r *http.Request, why shown) error {
	retry := max(why.retry, 0) // limiter.Never is negative
	answer := htmlAnswer{policy: page.RefusedPolicy, language: languageOf(r)}
	var err error
	if answer.body, err = p.refused.Append(make([]byte, 0, pageRoom), answer.language, retry, why.reference); err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	return answer.write(w, r, why.status)
}
