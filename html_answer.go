package tally

import (
	"net/http"
	"strconv"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/language"
)

// htmlAnswer is a page for a person.
type htmlAnswer struct {
	policy   string // Content-Security-Policy
	language *language.Texts
	body     []byte
}

// languageOf returns the texts in the language that a browser asks for.
func languageOf(r *http.Request) *language.Texts {
	var accept string
	if values := r.Header["Accept-Language"]; len(values) > 0 {
		accept = values[0]
	}
	return language.Choose(accept)
}

// write sends the page.
func (a *htmlAnswer) write(w http.ResponseWriter, r *http.Request, status int) error {
	h := w.Header()
	httpfield.NeverStore(h)
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
