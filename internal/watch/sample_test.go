package watch

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
)

// The stored class of a path doesn't identify a person, and clients can't make it long.
func TestClassesOfPathsHoldNoNames(t *testing.T) {
	for path, want := range map[string]string{
		"":                                  "/",
		"//":                                "/",
		"/login":                            "/login",
		"/wp-login.php":                     "/wp-login.php",
		"/api/v2/users/17/orders":           "/api/v2/users/…",
		"/page/103":                         "/page/*",
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
		if got := PathClass(path); got != want {
			t.Errorf("%.40q: got %q, want %q", path, got, want)
		}
	}
}

// Refusals are kept before an operator looks; they are bounded in number, in length and in time.
func TestRefusalsBeforeAnybodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(Watchers)
		refuse := func(n int) {
			w.Refused(time.Now(), func() Refusal {
				return Refusal{
					Zone: "login", Limit: "daily", Key: fmt.Sprintf("%cuser %d", identity.TagText, n),
					Path: "/login", Agent: strings.Repeat("x", n%5) + strings.Repeat("long", 1000),
				}
			})
		}
		refuse(0)
		if list := w.Recent(time.Now()); len(list) != 1 || list[0].Key != "kuser 0" || list[0].Path != "/login" || len(list[0].Agent) != maxAgent {
			t.Fatalf("got %+v", list)
		}
		for n := range 3 * maxSampled {
			refuse(n)
			if n%refusalsPerSecond == 0 {
				time.Sleep(time.Second) // in virtual time
			}
		}
		list := w.Recent(time.Now())
		if want := int(recentRefusals.Seconds()) * refusalsPerSecond; len(list) != min(want, maxSampled) || len(w.latest.ring) > maxSampled {
			t.Errorf("%d refusals are told, and %d kept", len(list), len(w.latest.ring))
		}
		for i := range list[1:] {
			if list[i].At.Before(list[i+1].At) {
				t.Fatalf("%v comes before %v", list[i].At, list[i+1].At)
			}
		}
		told := LatestOf(list, func(string) string { return "tag" })
		if len(told) != maxLatest || told[0].Text != fmt.Sprintf("user %d", 3*maxSampled-1) {
			t.Errorf("%d are told, the first is %+v", len(told), told[0])
		}
		if shares := SharesOf(list, func(s Refusal) string { return s.Agent + s.Key }); len(shares) != maxShares {
			t.Errorf("%d shares are told", len(shares))
		}
		time.Sleep(recentRefusals + time.Second)
		if list := w.Recent(time.Now()); len(list) != 0 {
			t.Errorf("%d refusals are told that are too old", len(list))
		}
	})
}

// A flood of refusals waits for no lock.
func TestFloodsOfRefusalsTakeNoLock(t *testing.T) {
	w, now := new(Watchers), time.Unix(1_800_000_000, 0)
	sample := func() Refusal { return Refusal{} }
	for range refusalsPerSecond + 1 {
		w.Refused(now, sample)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sampled.Mu.Lock()
	defer w.sampled.Mu.Unlock()
	w.Refused(now, sample) // it would block
}
