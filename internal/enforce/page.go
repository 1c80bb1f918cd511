package enforce

import (
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/page"
)

// suits reports whether a refused request may be answered with the page: if a browser navigates, by
// a link or a form.
func (p *Pages) suits(r *http.Request) bool {
	if p.Disabled || !isNavigation(r) {
		return false
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodPost
}

// pageRoom is a capacity that holds the page, in bytes.
const pageRoom = 6 << 10

// Shown is the part of a refusal that the page displays.
type Shown struct {
	Status    int
	Retry     time.Duration // how long to wait, or limiter.Never
	Reference page.Reference
}

// shown returns the part of a refusal that the page displays.
func (r *Refusal) shown() Shown { return Shown{r.Status(), r.Retry, r.references()} }

// Refuse answers a refused request with the page.
func (p *Pages) Refuse(w http.ResponseWriter, r *http.Request, why Shown) error {
	retry := max(why.Retry, 0) // limiter.Never is negative
	answer := htmlAnswer{policy: page.RefusedPolicy, language: languageOf(r)}
	var err error
	if answer.body, err = p.Refused.Append(make([]byte, 0, pageRoom), answer.language, retry, why.Reference); err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	return answer.write(w, r, why.Status)
}

// htmlAnswer is a page for a person.
type htmlAnswer struct {
	policy   string // Content-Security-Policy
	language *language.Texts
	body     []byte
}

// languageOf returns the texts in the language that a browser prefers.
func languageOf(r *http.Request) *language.Texts {
	return language.Choose(first(r.Header["Accept-Language"]))
}

// write sends the page.
func (a *htmlAnswer) write(w http.ResponseWriter, r *http.Request, status int) error {
	h := w.Header()
	ForOneClient(w)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", a.language.Tag)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	h.Set("Content-Security-Policy", a.policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept, Accept-Language")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(a.body)
	return err
}
