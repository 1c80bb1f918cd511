package tally

import (
	"net/http"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// isNavigation reports whether a browser has called up a page that its user sees now: it prefers
// HTML, and if it says what the request is for, that is a document of its own, no frame, and
// nothing that is loaded ahead.
func isNavigation(r *http.Request) bool {
	is := func(field, value string) bool { // or an older browser, which doesn't say
		said := r.Header[field]
		return len(said) == 0 || said[0] == value
	}
	return httpfield.PrefersHTML(r.Header) && is("Sec-Fetch-Mode", "navigate") && is("Sec-Fetch-Dest", "document") && !isSpeculative(r.Header)
}
