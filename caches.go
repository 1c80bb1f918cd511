package tally

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// The header fields that say how long caches may keep an answer.
const (
	fieldCache   = "Cache-Control"
	fieldExpires = "Expires"
	fieldAccel   = "X-Accel-Expires" // nginx's: seconds, 0 for not at all

	targetedSuffix = "-Cache-Control" // RFC 9213: CDN-Cache-Control, Cloudflare-CDN-Cache-Control and the like
)

// sharedCacheFields are obeyed by caches that many clients share, beside those that end
// with targetedSuffix.
var sharedCacheFields = []string{"Surrogate-Control", "Edge-Control"}

// isTargeted reports whether a field says to shared caches what Cache-Control says to
// all, instead of it.
func isTargeted(field string) bool {
	return strings.HasSuffix(field, targetedSuffix) || slices.Contains(sharedCacheFields, field)
}

// forbidStoring takes back what handlers before this one have said of how long
// caches may keep the answer: that was meant for pages. A 429 must not be stored
// (RFC 6585, section 4), but there are caches that do so if they are told to.
func forbidStoring(h http.Header) {
	for field := range h {
		switch {
		case field == fieldCache || isTargeted(field):
			h[field] = []string{"no-store"}
		case field == fieldAccel:
			h[field] = []string{"0"}
		}
	}
	delete(h, fieldExpires)
}

// forbidAnyStoring does so, and forbids it if nothing was said, too.
func forbidAnyStoring(h http.Header) {
	forbidStoring(h)
	h.Set(fieldCache, "no-store")
}

// isShareable reports whether an answer says that caches may hand it to others: all
// of them, or shared ones.
func isShareable(h http.Header, now time.Time) bool {
	for field, values := range h {
		switch {
		case isTargeted(field) && allowsSharing(values):
			return true
		case field == fieldAccel && !slices.Equal(values, []string{"0"}):
			return true
		}
	}
	control := h[fieldCache]
	expires, err := http.ParseTime(h.Get(fieldExpires))
	return allowsSharing(control) || err == nil && expires.After(now) && !forbidsSharing(control)
}

// allowsSharing reports whether the values of a field such as Cache-Control say so.
func allowsSharing(control []string) bool {
	says := strings.ToLower(strings.Join(control, ","))
	return !forbidsSharing(control) &&
		(strings.Contains(says, "public") || strings.Contains(says, "max-age") || strings.Contains(says, "maxage"))
}

// forbidsSharing reports whether the values of a field such as Cache-Control forbid it.
// In Edge-Control `!no-store` takes that back.
func forbidsSharing(control []string) bool {
	says := strings.ReplaceAll(strings.ToLower(strings.Join(control, ",")), "!no-store", "")
	return strings.Contains(says, "private") || strings.Contains(says, "no-store")
}
