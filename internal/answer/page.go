package answer

import (
	"net/http"
	"strconv"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/reference"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/language"
	"github.com/caddy-tally/caddy-tally/internal/page"
)

// Pages are the pages for browsers.
type Pages struct {
	Disabled bool
	Refused  page.Refused
}

// Suits reports whether a refused request may be answered with the page: if a browser navigates, by
// a link or a form.
func (p *Pages) Suits(r *http.Request) bool {
	if p.Disabled || !httpfield.IsNavigation(r.Header) {
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
func (r *Refusal) shown() Shown { return Shown{r.status(), r.Retry, r.References()} }

// References returns both forms of the reference that people see.
func (r *Refusal) References() page.Reference {
	return page.Reference{Short: reference.Short(r.Of.ID()), Whole: r.Of.ID()}
}

// Refuse answers a refused request with the page.
func (p *Pages) Refuse(w http.ResponseWriter, r *http.Request, why Shown) error {
	retry := max(why.Retry, 0) // limiter.Never is negative
	html := HTML{Policy: page.RefusedPolicy, Language: LanguageOf(r)}
	html.Body = p.Refused.Append(make([]byte, 0, pageRoom), html.Language, retry, why.Reference)
	return html.Write(w, r, why.Status)
}

// HTML is a page for a person.
type HTML struct {
	Policy   string // Content-Security-Policy
	Language *language.Texts
	Body     []byte
}

// LanguageOf returns the texts in the language that a browser prefers.
func LanguageOf(r *http.Request) *language.Texts {
	return language.Choose(httpfield.First(r.Header["Accept-Language"]))
}

// Write sends the page.
func (a *HTML) Write(w http.ResponseWriter, r *http.Request, status int) error {
	w = Own(w)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", a.Language.Tag)
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	h.Set(policyField, a.Policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept, Accept-Language")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(a.Body)
	return err
}
