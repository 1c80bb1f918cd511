package httpfield

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// NoStore is the value of Cache-Control that forbids all storing.
const NoStore = "no-store"

// The header fields that control how long caches may keep an answer.
const (
	CacheControl = "Cache-Control"
	expires      = "Expires"
	accelExpires = "X-Accel-Expires" // nginx's: seconds, 0 for not at all

	targetedSuffix = "-Cache-Control" // RFC 9213: CDN-Cache-Control, Cloudflare-CDN-Cache-Control and the like
)

// sharedCacheFields are obeyed by shared caches, in addition to the fields that end with
// targetedSuffix.
var sharedCacheFields = []string{"Surrogate-Control", "Edge-Control"}

// isTargeted reports whether a field replaces Cache-Control for shared caches.
func isTargeted(field string) bool {
	return strings.HasSuffix(field, targetedSuffix) || slices.Contains(sharedCacheFields, field)
}

// forbidStoring changes the fields of h that allow caches to keep the answer, so that they forbid
// it. It adds no fields. Use it on refusals: earlier handlers meant such fields for pages. A 429
// must not be stored (RFC 6585, section 4), but some caches store it if they are told to.
func forbidStoring(h http.Header) {
	for field, values := range h {
		switch {
		case (field == CacheControl || isTargeted(field)) && (len(values) != 1 || values[0] != NoStore):
			h[field] = []string{NoStore}
		case field == accelExpires:
			h[field] = []string{"0"}
		}
	}
	delete(h, expires)
}

// NeverStore does the same as forbidStoring, and adds `Cache-Control: no-store` in any
// case.
func NeverStore(h http.Header) {
	forbidStoring(h)
	if len(h[CacheControl]) == 0 {
		h.Set(CacheControl, NoStore)
	}
}

// ForbidSharing makes an answer that isn't shareable private: without a word about it some caches
// keep it for as long as they like.
func ForbidSharing(h http.Header) {
	if !forbidsSharing(h[CacheControl]) {
		h.Add(CacheControl, "private")
	}
}

// IsShareable reports whether an answer with the header h allows some cache to send it to other
// clients.
func IsShareable(h http.Header, now time.Time) bool {
	for field, values := range h {
		switch {
		case isTargeted(field) && allowsSharing(values):
			return true
		case field == accelExpires && !slices.Equal(values, []string{"0"}):
			return true
		}
	}
	control := h[CacheControl]
	end, err := http.ParseTime(h.Get(expires))
	return allowsSharing(control) || err == nil && end.After(now) && !forbidsSharing(control)
}

// allowsSharing reports whether the values of a field such as Cache-Control allow sharing.
func allowsSharing(control []string) bool {
	says := strings.ToLower(strings.Join(control, ","))
	return !forbidsSharing(control) &&
		(strings.Contains(says, "public") || strings.Contains(says, "max-age") || strings.Contains(says, "maxage"))
}

// forbidsSharing reports whether the values of a field such as Cache-Control forbid sharing. In
// Edge-Control `!no-store` revokes that.
func forbidsSharing(control []string) bool {
	says := strings.ReplaceAll(strings.ToLower(strings.Join(control, ",")), "!no-store", "")
	return strings.Contains(says, "private") || strings.Contains(says, "no-store")
}
