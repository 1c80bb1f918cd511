package httpfield

import (
	"net/http"
	"testing"
	"time"
)

func TestAnswersThatCachesShare(t *testing.T) {
	for control, shared := range map[string]bool{
		"": false, "no-cache": false, "private, max-age=60": false, "no-store": false, "max-age=60, private": false,
		"public": true, "max-age=60": true, "Public, Max-Age=60": true, "s-maxage=5": true,
	} {
		if IsShareable(http.Header{"Cache-Control": {control}}, time.Now()) != shared {
			t.Errorf("%q: %v", control, !shared)
		}
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const later, before = "Tue, 01 Jan 2030 00:00:01 GMT", "Mon, 31 Dec 2029 23:59:59 GMT"
	for _, c := range []struct {
		h      http.Header
		shared bool
	}{
		{nil, false},
		{http.Header{"Expires": {later}}, true},
		{http.Header{"Expires": {before}}, false},
		{http.Header{"Expires": {"0"}}, false},
		{http.Header{"Expires": {later}, "Cache-Control": {"private"}}, false},
		{http.Header{"Cdn-Cache-Control": {"max-age=60"}, "Cache-Control": {"no-store"}}, true},
		{http.Header{"Cdn-Cache-Control": {"no-store"}, "Cache-Control": {"max-age=60"}}, true}, // other caches don't know the former
		{http.Header{"Cdn-Cache-Control": {"no-store"}}, false},
		{http.Header{"Cloudflare-Cdn-Cache-Control": {"max-age=60"}, "Cache-Control": {"private"}}, true},
		{http.Header{"Surrogate-Control": {"max-age=60"}, "Cache-Control": {"no-store"}}, true},
		{http.Header{"Surrogate-Control": {`content="ESI/1.0"`}}, false},
		{http.Header{"Surrogate-Control": {"no-store"}}, false},
		{http.Header{"Edge-Control": {"!no-store, cache-maxage=60m"}, "Cache-Control": {"no-store"}}, true},
		{http.Header{"X-Accel-Expires": {"60"}, "Cache-Control": {"no-store"}}, true},
		{http.Header{"X-Accel-Expires": {"0"}}, false},
	} {
		if IsShareable(c.h, now) != c.shared {
			t.Errorf("%v: %v", c.h, !c.shared)
		}
	}
}
