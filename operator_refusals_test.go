package tally

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

// What is kept of a path doesn't tell who somebody is, and clients can't make it long.
func TestClassesOfPathsHoldNoNames(t *testing.T) {
	for path, want := range map[string]string{
		"":                                  "/",
		"//":                                "/",
		"/login":                            "/login",
		"/wp-login.php":                     "/wp-login.php",
		"/api/v2/users/17/orders":           "/api/v2/users/…",
		"/reset/3f9a77c2e01b":               "/reset/*",
		"/u/alice@example.org":              "/u/*",
		"/user/550e8400-e29b-41d4-a716":     "/user/*",
		"/ip/203.0.113.9":                   "/ip/*",
		"/a//b///c//":                       "/a/b/c",
		"/\x1b[2J/\u202eevil/<script>":      "/*/*/*",
		"/" + strings.Repeat("a", 10_000):   "/*",
		"/x?token=s3cret":                   "/*",
		strings.Repeat("/"+"abcdefgh", 999): "/abcdefgh/abcdefgh/abcdefgh/…",
	} {
		if got := pathClass(path); got != want {
			t.Errorf("%.40q: got %q, want %q", path, got, want)
		}
	}
}

// Refusals are kept before anybody looks; they are bounded in number, in length and in time.
func TestRefusalsBeforeAnybodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, by := new(watchers), &policy{name: "daily", zone: &zone{Name: "login"}}
		refuse := func(n int) {
			r := httptest.NewRequest(http.MethodGet, "/login?token=s3cret", nil)
			r.Header.Set("User-Agent", strings.Repeat("x", n%5)+strings.Repeat("long", 1000))
			refusal := refusal{policy: by, key: fmt.Appendf([]byte{identity.TagText}, "user %d", n)}
			refusal.note(r)
			w.refused(time.Now(), func(now time.Time) sampledRefusal { return refusal.sample(r, now) })
		}
		refuse(0)
		if list := w.recent(time.Now()); len(list) != 1 || list[0].key != "kuser 0" || list[0].path != "/login" || len(list[0].agent) != maxAgent {
			t.Fatalf("got %+v", list)
		}
		for n := range 3 * maxSampled {
			refuse(n)
			if n%refusalsPerSecond == 0 {
				time.Sleep(time.Second) // of the bubble
			}
		}
		list := w.recent(time.Now())
		if want := int(recentRefusals.Seconds()) * refusalsPerSecond; len(list) != min(want, maxSampled) || len(w.latest.ring) > maxSampled {
			t.Errorf("%d refusals are told, and %d kept", len(list), len(w.latest.ring))
		}
		for i := range list[1:] {
			if list[i].at.Before(list[i+1].at) {
				t.Fatalf("%v comes before %v", list[i].at, list[i+1].at)
			}
		}
		told := latestOf(list, func(string) string { return "tag" })
		if len(told) != maxLatest || told[0].Text != fmt.Sprintf("user %d", 3*maxSampled-1) {
			t.Errorf("%d are told, the first is %+v", len(told), told[0])
		}
		if shares := sharesOf(list, func(s sampledRefusal) string { return s.agent + s.key }); len(shares) != maxShares {
			t.Errorf("%d shares are told", len(shares))
		}
		time.Sleep(recentRefusals + time.Second)
		if list := w.recent(time.Now()); len(list) != 0 {
			t.Errorf("%d refusals are told that are too old", len(list))
		}
	})
}

// A flood of refusals waits for no lock.
func TestFloodsOfRefusalsTakeNoLock(t *testing.T) {
	w, now := new(watchers), time.Unix(1_800_000_000, 0)
	sample := func(time.Time) sampledRefusal { return sampledRefusal{} }
	for range refusalsPerSecond + 1 {
		w.refused(now, sample)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sampled.Mu.Lock()
	defer w.sampled.Mu.Unlock()
	w.refused(now, sample) // which would hang
}
