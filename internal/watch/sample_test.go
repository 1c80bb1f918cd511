package watch

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/operator"
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

// Requests are kept before an operator looks; they are bounded in number, in length and in time.
func TestRequestsBeforeAnybodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(Watchers)
		refuse := func(n int) {
			w.Add(time.Now(), true, func() Request {
				r := refused("login", fmt.Sprintf("%cuser %d", identity.TagText, n))
				r.Path, r.Agent = "/login", strings.Repeat("x", n%5)+strings.Repeat("long", 1000)
				return r
			})
			w.Add(time.Now(), false, func() Request { return Request{Counted: []Counted{{"login", "klet in"}}} })
		}
		refuse(0)
		list := w.Recent(time.Now())
		if len(list) != 2 || list[0].Key() != "kuser 0" || list[0].Path != "/login" || len(list[0].Agent) != maxAgent || list[1].Refusal != nil {
			t.Fatalf("got %+v", list)
		}
		for n := range 3 * maxSampled {
			refuse(n)
			if n%requestsPerSecond == 0 {
				time.Sleep(time.Second) // in virtual time
			}
		}
		list = w.Recent(time.Now())
		want := 2 * min(int(recentRequests.Seconds())*requestsPerSecond, maxSampled)
		if len(list) != want || len(w.latest[0].ring) > maxSampled || len(w.latest[1].ring) > maxSampled {
			t.Errorf("%d requests are told, want %d", len(list), want)
		}
		for i := range list[1:] {
			if list[i].At.Before(list[i+1].At) {
				t.Fatalf("%v comes before %v", list[i].At, list[i+1].At)
			}
		}
		refusals := Describe(list, func(string) string { return "tag" })
		if len(refusals.Latest) != maxLatest || refusals.Latest[0].Text != fmt.Sprintf("user %d", 3*maxSampled-1) || refusals.Sampled != want/2 || refusals.LetIn != want/2 {
			t.Errorf("%d are told, %d and %d in all, the first is %+v", len(refusals.Latest), refusals.Sampled, refusals.LetIn, refusals.Latest[0])
		}
		if len(refusals.Clients) != maxShares {
			t.Errorf("%d shares are told", len(refusals.Clients))
		}
		time.Sleep(recentRequests + time.Second)
		if list := w.Recent(time.Now()); len(list) != 0 {
			t.Errorf("%d requests are told that are too old", len(list))
		}
	})
}

// Whatever a query asks for, the requests are those that a look at each of them finds, and shares are their counts.
func TestQueriesSelectRequests(t *testing.T) {
	pick := func(texts ...string) string { return texts[rand.IntN(len(texts))] }
	var list []Request
	for range 400 {
		r := Request{
			Counted: []Counted{{pick("login", "api"), pick("kalice", "kbob")}}, Path: pick("/login", "/api", "/"), Agent: pick("curl/8", "Bot/1", ""),
			Network: pick("203.0.113.0/24", "2001:db8:1::/48", ""), Country: pick("DE", "AT", ""), ASN: pick("AS64496", ""), Host: pick("a.example", "b.example"),
		}
		if rand.IntN(2) == 0 {
			r.Refusal = &Refusal{Zone: r.Counted[0].Zone, Limit: "l"}
		} else if rand.IntN(2) == 0 {
			r.Counted = append(r.Counted, Counted{"third", "kcarol"})
		}
		list = append(list, r)
	}
	for range 2000 {
		q := operator.RefusalsQuery{
			Zone: pick("", "login", "third"), Path: pick("", "", "/login", "/", "/lo"), Agent: pick("", "", "none", "curl/8"), Network: pick("", "", "203.0.113.0/24"),
			Country: pick("", "", "DE", "FR"), Provider: pick("", "", "AS64496", "AS64497"), Text: pick("", "", "CURL", "alice", "carol", "113", "example", "b.ex", "nothing"),
		}
		var found []Request
		refusedOnes, letIn := 0, 0
		for _, r := range list {
			counted := slices.IndexFunc(r.Counted, func(c Counted) bool { return q.Zone == "" || c.Zone == q.Zone })
			agent := r.Agent
			if agent == "" {
				agent = "none"
			}
			wanted := counted >= 0 && (q.Path == "" || r.Path == q.Path) && (q.Agent == "" || agent == q.Agent) && (q.Network == "" || r.Network == q.Network) &&
				(q.Country == "" || r.Country == q.Country) && (q.Provider == "" || r.ASN == q.Provider)
			if wanted && q.Text != "" {
				all := strings.ToLower(strings.Join([]string{r.Path, agent, r.Network, r.Country, r.ASN, r.Counted[counted].Key[1:], r.Host}, "\n"))
				wanted = strings.Contains(all, strings.ToLower(q.Text))
			}
			copied := r
			if got := copied.In(q.Zone) && copied.Matches(q); got != wanted {
				t.Fatalf("%+v of %+v: got %v", q, r, got)
			}
			if wanted {
				found = append(found, copied)
				if r.Refusal != nil {
					refusedOnes++
				} else {
					letIn++
				}
			}
		}
		refusals := Describe(found, func(string) string { return "" })
		sum := operator.RefusedShare{}
		for _, share := range refusals.Clients {
			if !strings.HasPrefix(share.Client, "key:") {
				t.Fatalf("the client %+v has no name", share)
			}
			sum.Refused += share.Refused
			sum.LetIn += share.LetIn
		}
		if refusals.Sampled != refusedOnes || refusals.LetIn != letIn || sum.Refused != refusedOnes || sum.LetIn != letIn {
			t.Fatalf("%+v: got %d and %d, in shares %+v, want %d and %d", q, refusals.Sampled, refusals.LetIn, sum, refusedOnes, letIn)
		}
	}
}

// A flood of requests waits for no lock.
func TestFloodsTakeNoLock(t *testing.T) {
	w, now := new(Watchers), time.Unix(1_800_000_000, 0)
	for kind, isRefused := range []bool{false, true} {
		for range requestsPerSecond + 1 {
			w.Add(now, isRefused, func() Request { return refused("login", "kx") })
		}
		w.mu.Lock()
		w.sampled[kind].Mu.Lock()
		w.Add(now, isRefused, func() Request { return Request{} }) // it would block
		w.sampled[kind].Mu.Unlock()
		w.mu.Unlock()
	}
}

// Texts with addresses in them are shown, and searched, with networks, and are never taken for addresses.
func TestAddressesInsideTexts(t *testing.T) {
	r := refused("z", "k203.0.113.82|GET")
	r.Agent = "Agent"
	if refusal := r.describe(noTag); refusal.Text != "203.0.113.0/24|GET" || refusal.Client != "key:203.0.113.0/24|GET" {
		t.Errorf("got %+v", refusal)
	}
	for text, want := range map[string]bool{".82": false, ".0/24|get": true} {
		if got := r.Matches(operator.RefusalsQuery{Text: text}); got != want {
			t.Errorf("%s: found %v", text, got)
		}
	}
	for key, want := range map[string]string{"kalice": "key:alice", "aacme": "api-key:acme"} {
		r := refused("z", key)
		if refusal := r.describe(noTag); refusal.Client != want {
			t.Errorf("%s: got %q", key, refusal.Client)
		}
	}
}

// What a later handler refuses was not let in; the zones of several handlers are told of one request.
func TestOneRequestInSeveralHandlers(t *testing.T) {
	w, now := new(Watchers), time.Now()
	letIn := func() Request { return Request{Counted: []Counted{{"a", "kx"}}} }
	first, second := w.Add(now, false, letIn), w.Add(now, false, letIn)
	w.Later(first, true, []Counted{{"b", "ky"}})
	for range 100 { // an error route may lead through the same handler again
		w.Later(second, false, []Counted{{"b", "ky"}, {"a", "kx"}})
	}
	list := w.Recent(now)
	if len(list) != 1 || len(list[0].Counted) != 2 || !list[0].In("b") || list[0].Key() != "ky" {
		t.Errorf("got %+v", list)
	}
}

// A request that everyone's count has counted first is known by the client.
func TestRequestsOfEveryoneAreSomebodys(t *testing.T) {
	everyone, client := string(identity.TagEveryone), string(identity.AppendPrefix([]byte{identity.TagNetwork}, netip.MustParsePrefix("203.0.113.9/32")))
	for want, r := range map[string]Request{
		client: {Counted: []Counted{{"all", everyone}, {"z", client}}},
		"b":    {Counted: []Counted{{"all", everyone}}, Address: "b"},
		"c":    {Counted: []Counted{{"all", everyone}, {"z", ""}, {"y", "c"}}, Address: "b"},
		"":     {Counted: []Counted{{"all", everyone}}},
	} {
		if got := r.Key(); got != want {
			t.Errorf("%+v: got %q, want %q", r, got, want)
		}
	}
}
