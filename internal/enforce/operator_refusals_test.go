package enforce

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

// The stored class of a path doesn't identify a person, and clients can't make it long.
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
		if got := PathClass(path); got != want {
			t.Errorf("%.40q: got %q, want %q", path, got, want)
		}
	}
}

// Refusals are kept before an operator looks; they are bounded in number, in length and in time.
func TestRefusalsBeforeAnybodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, by := new(Watchers), StandIn(&Zone{Name: "login"}, "daily")
		refuse := func(n int) {
			r := httptest.NewRequest(http.MethodGet, "/login?token=s3cret", nil)
			r.Header.Set("User-Agent", strings.Repeat("x", n%5)+strings.Repeat("long", 1000))
			refusal := Refusal{Policy: by, Key: fmt.Appendf([]byte{identity.TagText}, "user %d", n)}
			refusal.Note(r)
			w.Refused(time.Now(), func(now time.Time) SampledRefusal { return refusal.Sample(r, now) })
		}
		refuse(0)
		if list := w.Recent(time.Now()); len(list) != 1 || list[0].Key != "kuser 0" || list[0].Path != "/login" || len(list[0].Agent) != MaxAgent {
			t.Fatalf("got %+v", list)
		}
		for n := range 3 * MaxSampled {
			refuse(n)
			if n%RefusalsPerSecond == 0 {
				time.Sleep(time.Second) // in virtual time
			}
		}
		list := w.Recent(time.Now())
		if want := int(RecentRefusals.Seconds()) * RefusalsPerSecond; len(list) != min(want, MaxSampled) || len(w.Latest.Ring) > MaxSampled {
			t.Errorf("%d refusals are told, and %d kept", len(list), len(w.Latest.Ring))
		}
		for i := range list[1:] {
			if list[i].At.Before(list[i+1].At) {
				t.Fatalf("%v comes before %v", list[i].At, list[i+1].At)
			}
		}
		told := LatestOf(list, func(string) string { return "tag" })
		if len(told) != MaxLatest || told[0].Text != fmt.Sprintf("user %d", 3*MaxSampled-1) {
			t.Errorf("%d are told, the first is %+v", len(told), told[0])
		}
		if shares := SharesOf(list, func(s SampledRefusal) string { return s.Agent + s.Key }); len(shares) != MaxShares {
			t.Errorf("%d shares are told", len(shares))
		}
		time.Sleep(RecentRefusals + time.Second)
		if list := w.Recent(time.Now()); len(list) != 0 {
			t.Errorf("%d refusals are told that are too old", len(list))
		}
	})
}

// A flood of refusals waits for no lock.
func TestFloodsOfRefusalsTakeNoLock(t *testing.T) {
	w, now := new(Watchers), time.Unix(1_800_000_000, 0)
	sample := func(time.Time) SampledRefusal { return SampledRefusal{} }
	for range RefusalsPerSecond + 1 {
		w.Refused(now, sample)
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Sampled.Mu.Lock()
	defer w.Sampled.Mu.Unlock()
	w.Refused(now, sample) // it would block
}
