package httpfield

import (
	"net/http"
	"slices"
	"strings"
)

// IsNavigation reports whether a browser requests a page that its user sees now: it prefers HTML,
// and its Sec-Fetch fields, if any, describe a document of its own, not a frame or a page loaded
// ahead. A service worker that passes such a request on makes the destination empty.
func IsNavigation(h http.Header) bool {
	return loadsPage(h, "", "document") || len(h["Sec-Fetch-Mode"]) > 0 && loadsPage(h, "empty")
}

// IsFramed does the same for a page in a frame of another one.
func IsFramed(h http.Header) bool { return loadsPage(h, "iframe", "frame", "object", "embed") }

// loadsPage reports whether a browser requests a page for one of these destinations, where "" is that of an
// older browser, which doesn't send the field.
func loadsPage(h http.Header, destinations ...string) bool {
	mode := First(h["Sec-Fetch-Mode"])
	return prefersHTML(h) && (mode == "" || mode == "navigate") &&
		slices.Contains(destinations, First(h["Sec-Fetch-Dest"])) &&
		!isXHR(h) && !IsSpeculative(h)
}

// isFetch reports whether a script of a page sends a request, rather than a browser that loads something.
func isFetch(h http.Header) bool {
	return First(h["Sec-Fetch-Dest"]) == "empty" && First(h["Sec-Fetch-Mode"]) != "navigate" || isXHR(h)
}

// isXHR reports what scripts say where browsers send no Sec-Fetch fields. Apps send their name in the field.
func isXHR(h http.Header) bool { return First(h["X-Requested-With"]) == "XMLHttpRequest" }

// IsSpeculative reports whether a browser sends a request before its user asks for the page, by a
// prefetch, a prerender or a preview. It checks Sec-Purpose
// (https://fetch.spec.whatwg.org/#sec-purpose-header) and the fields of older browsers.
func IsSpeculative(h http.Header) bool {
	says := func(field, value string) bool {
		said := First(h[field])
		return len(said) >= len(value) && strings.EqualFold(said[:len(value)], value)
	}
	return len(h["Sec-Purpose"]) > 0 || says("Purpose", "pre") || says("X-Purpose", "pre") || says("X-Moz", "prefetch")
}

// First returns the first value of a header field, or "".
func First(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// FrameAncestors returns what the values of Content-Security-Policy say about who may frame an answer:
// one policy for each that says something.
func FrameAncestors(policies []string) (kept []string) {
	for policy := range strings.SplitSeq(strings.Join(policies, ","), ",") {
		for directive := range strings.SplitSeq(policy, ";") {
			if words := strings.Fields(directive); len(words) > 0 && strings.EqualFold(words[0], "frame-ancestors") {
				kept = append(kept, strings.Join(words, " "))
				break // the others are ignored
			}
		}
	}
	return kept
}
