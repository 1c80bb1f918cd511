package answer

import (
	"net/http"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
)

// Own returns a writer for an answer of ours, with header fields of its own. They reach the client
// whatever header fields the site sets on its pages, at once or when the answer is written. The
// site's other fields stay, except those that keep a browser from showing the answer. No cache stores
// it.
func Own(w http.ResponseWriter) http.ResponseWriter {
	ForOneClient(w)
	if own, ok := w.(*ownWriter); ok {
		return own
	}
	return &ownWriter{ResponseWriter: w, own: make(http.Header)}
}

type ownWriter struct {
	http.ResponseWriter
	own   http.Header
	wrote bool
}

// Header implements http.ResponseWriter.
func (w *ownWriter) Header() http.Header { return w.own }

// WriteHeader implements http.ResponseWriter.
func (w *ownWriter) WriteHeader(status int) {
	w.wrote = true
	if below := beneathDeferred(w.ResponseWriter, nil); below != nil {
		below.own = w.own
	}
	keepOwn(w.ResponseWriter.Header(), w.own, false)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *ownWriter) Write(data []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach the writer within.
func (w *ownWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const policyField = "Content-Security-Policy"

// ofSitesPages are fields that a site means for its own pages: they keep browsers from showing or
// running another one, make them load something or go elsewhere, or remove the cookie that it sets.
var ofSitesPages = []string{
	"Clear-Site-Data", "Content-Disposition", "Content-Security-Policy-Report-Only", "Document-Policy",
	"Integrity-Policy", "Link", "Refresh", "Require-Document-Policy", "Speculation-Rules",
}

// keepOwn sets an answer's own fields in its header. Of the site's policies it keeps who may frame
// the answer: browsers obey the strictest. encoded says that an encoder has changed the body, and removed its length.
// An answer that is an error route's has none of its own.
func keepOwn(h, own http.Header, encoded bool) {
	if own == nil {
		return
	}
	for _, field := range ofSitesPages {
		delete(h, field)
	}
	if !encoded {
		delete(h, "Content-Encoding") // of a file that this answer replaces
	}
	for field, values := range own {
		others := slices.DeleteFunc(slices.Clone(h[field]),
			func(other string) bool { return slices.Contains(values, other) })
		switch {
		case field == "Content-Length" && encoded:
			continue
		case field == policyField:
			h[field] = append(slices.Clone(values), httpfield.FrameAncestors(others)...)
		case field == "Set-Cookie" || field == "Vary":
			h[field] = append(others, values...) // a browser obeys the last cookie of a name
		default:
			h[field] = slices.Clone(values) // the header directive writes into them
		}
	}
}
