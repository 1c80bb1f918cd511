package dashboard

import (
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// setHeaders sets the header fields of every answer: no scripts and styles except this page's, no
// frame around it, and no caching.
//
// The referrer policy is same-origin because with no-referrer, browsers send `Origin: null` with
// forms (decision 71). Neither sends a referrer to other origins.
func setHeaders(h http.Header, r *http.Request, nonce string) {
	if r.TLS != nil { // without TLS browsers ignore it, with a warning
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Content-Security-Policy", strings.Join([]string{
		"default-src 'none'",
		"script-src 'nonce-" + nonce + "'",
		"style-src 'nonce-" + nonce + "'",
		"img-src 'self'",
		"connect-src 'self'",
		"form-action 'self'",
		"base-uri 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
	}, "; "))
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// guard parses a form. It returns an error unless this user's page has sent the form.
func (v *visit) guard() error {
	if err := crossOrigin.Check(v.r); err != nil {
		return operator.Errorf(http.StatusForbidden, "Another site sent this form. Nothing was changed.")
	}
	if err := v.readForm(); err != nil {
		return err
	}
	if !seals.verify(v.User, v.r.PostForm.Get("token")) {
		return operator.Errorf(http.StatusForbidden, "This page is out of date, because Caddy was restarted or you logged in again meanwhile. Nothing was changed. Go back, reload the page, and try it again.")
	}
	return nil
}

// crossOrigin rejects requests that a browser marks as cross-origin.
var crossOrigin = http.NewCrossOriginProtection()

func (v *visit) readForm() error {
	if kind, _, _ := mime.ParseMediaType(v.r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		return operator.Errorf(http.StatusUnsupportedMediaType, "Send a form of this dashboard.")
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, operator.MaxBody)
	err := v.r.ParseForm()
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return operator.Errorf(http.StatusRequestEntityTooLarge, "The form is longer than %d bytes.", operator.MaxBody)
	case err != nil:
		return operator.Errorf(http.StatusBadRequest, "The form can't be read.")
	}
	return nil
}

// fromElsewhere reports whether a browser marks a request as another site's.
func fromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}
