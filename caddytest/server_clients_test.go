package caddytest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// perClient is a Caddyfile that counts per client, with more options of the app
// and of the zone.
func perClient(global, zone string) string {
	return options(`
	rate_limit {
		store_timeout 1m
		`+global+`
	}
	`+trusting) + site(`
	rate_limit {
		zone z {
			per client
			`+zone+`
		}
	}
	respond "{http.rate_limit.client} {http.rate_limit.client.kind} {http.rate_limit.client.verified}"`)
}

// agent is a browser that says that it is one of many.
func agent(i int) string { return fmt.Sprintf("User-Agent: browser %d", i) }

// from6 is an address in one of many networks of IPv6.
func from6(network, host int) string {
	return fmt.Sprintf("X-Forwarded-For: 2001:db8:0:%x::%x", network, host)
}

func TestFingerprintsInOneNetworkAreToldApart(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, perClient("", "limit 3/1h"))
	s.wantPassed(3, 5, "/", from(1), agent(1))
	s.wantPassed(3, 5, "/", from(1), agent(1), "Accept-Language: de-DE,de;q=0.9")
	s.wantPassed(0, 2, "/", from(1), agent(1), "Accept-Language: de-AT") // the same language
	s.wantPassed(3, 5, "/", from(1), agent(1), `Sec-CH-UA-Platform: "Linux"`)
	s.wantPassed(3, 5, "/", from(2), agent(1))
	s.wantPassed(3, 5, "/", from6(1, 1), agent(1))
	s.wantPassed(0, 2, "/", from6(1, 2), agent(1)) // the same household
	s.wantPassed(3, 5, "/", from6(2, 1), agent(1))
	// What differs from one request to the next makes no other client.
	s.wantPassed(0, 2, "/", from(1), agent(1), "Accept: text/html", "Accept-Encoding: gzip", "Cookie: a=b")
}

// However an IPv4 address is carried in IPv6, who has it is one client, and one
// network with its ceiling.
func TestCarriedAddressesAreOneClient(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, perClient("", "limit 2/1h"))
	s.wantPassed(2, 3, "/", from(1), agent(1))
	for i, address := range []string{"::ffff:192.0.2.1", "64:ff9b::192.0.2.1", "2002:c000:201:1::1", "2001:0:1:2:3:4:3fff:fdfe", "::192.0.2.1"} {
		s.wantPassed(0, 1, "/", "X-Forwarded-For: "+address, agent(1))
		s.wantPassed(1, 1, "/", "X-Forwarded-For: "+address, agent(2+i))
	}
	s.wantPassed(1, 3, "/", "X-Forwarded-For: 2002:c000:201:2::1", agent(9)) // and 7 before are the 8 of the ceiling

	// Operators see the network that counts, and find the client by any of its addresses.
	for _, client := range []string{"", "2002:c000:201:1::1", "192.0.2.1"} {
		refusals, err := s.operator().Refusals(t.Context(), operator.RefusalsQuery{Client: client})
		if err != nil || len(refusals.Networks) != 1 || refusals.Networks[0].Text != "192.0.2.0/24" || refusals.Sampled != 8 || refusals.LetIn != 8 {
			t.Errorf("%q: refusals are %+v, %v", client, refusals, err)
		}
	}
	const banned = "2002:c000:201:1::2"
	s.wantCommand(t, 0, words("ban "+banned), banned)
	bans, err := s.operator().Bans(t.Context())
	if err != nil || len(bans) != 1 || bans[0].Client != banned || bans[0].Tag != "" { // it isn't about the client of 192.0.2.1
		t.Errorf("bans are %+v, %v", bans, err)
	}
}

// Without a word about itself, a client is its network.
func TestClientsThatSayNothing(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, perClient("", "limit 3/1h"))
	const silent = "User-Agent: " // Go would say something else
	a := s.get("/", from(1), silent)
	if !strings.HasSuffix(a.body, " prefix false") {
		t.Errorf("a client that says nothing is %q", a.body)
	}
	s.wantPassed(2, 4, "/", from(1), silent)
	s.wantPassed(3, 4, "/", from(1), agent(1))
}

func TestInventedBrowsersGainNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		zone string
		most int
	}{
		"default":  {"limit 5/1h", 20},
		"ceiling":  {"limit 5/1h\nprefix_ceiling 2", 10},
		"bucket":   {"limit 1/1h burst 5", 20},
		"two":      {"limit 100/1m\nlimit 5/1h", 20},
		"squeezed": {"limit 10/1h", 21}, // when there are too many,
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, perClient("", c.zone))
			passed := 0
			for i := range 200 {
				passed += s.passed(1, "/", from(1), agent(i))
			}
			if passed != c.most {
				t.Errorf("a script that invents browsers got %d, want %d", passed, c.most)
			}
			s.wantPassed(1, 1, "/", from(2), agent(1))
		})
	}
}

// What is left for a client is never more than its network has.
func TestClientIsToldOfItsNetwork(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, perClient("", "limit 5/1h\nprefix_ceiling 1"))
	if a := s.get("/", from(1), agent(1)); a.header.Get("RateLimit-Policy") != `"z";q=5;w=3600` {
		t.Errorf("the first is told of %q", a.header.Get("RateLimit-Policy"))
	}
	s.get("/", from(1), agent(2))
	a := s.get("/", from(1), agent(2))
	if got := a.header.Get("RateLimit"); !strings.HasPrefix(got, `"z-network";r=2;`) || !strings.Contains(got, `"z";r=3;`) {
		t.Errorf("the second is told %q", got)
	}
	s.wantPassed(2, 2, "/", from(1), agent(3))
	a = s.get("/", from(1), agent(4))
	if got := a.header.Get("RateLimit"); a.status != http.StatusTooManyRequests || !strings.HasPrefix(got, `"z-network";r=0;`) {
		t.Errorf("the network is used up: status %d, %q", a.status, got)
	}
	if a.header.Get("Retry-After") == "" || a.header.Get("RateLimit-Policy") != `"z-network";q=5;w=3600` {
		t.Errorf("the network is used up: %v", a.header)
	}
}

// squeezing is a Caddyfile under which a network is squeezed soon.
func squeezing(more string) string {
	return perClient("pressure {\nfingerprints 3\n}\n"+more, "limit 4/1s burst 4\nprefix_ceiling 100")
}

func TestCrowdedNetworkIsSqueezed(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, squeezing(""))
	for i := range 3 {
		s.wantPassed(1, 1, "/", from(1), agent(i))
	}
	if strings.Contains(s.mustMetrics(), "caddy_rate_limit_squeezes_total 1") {
		t.Error("squeezed too early")
	}
	s.get("/", from(1), agent(3)) // one too many
	waitFor(t, "the squeeze", func() bool { return strings.Contains(s.mustMetrics(), "caddy_rate_limit_squeezes_total 1") })
	others := 1
	wantSqueezed := func(when string) {
		t.Helper()
		others++
		waitFor(t, "the bucket to fill up", func() bool { return s.get("/", from(1), agent(100)).status == http.StatusOK })
		passed, begin := 0, time.Now()
		for i := range 50 {
			passed += s.passed(1, "/", from(1), agent(i%7))
		}
		if most := 18 + 2*int(time.Since(begin)/time.Second); passed > most { // 2 in a second, and not 4 for each of 7
			t.Errorf("%s: %d of 50 passed, want %d at most", when, passed, most)
		}
		s.wantPassed(3, 3, "/", from(others), agent(1))
		a := s.get("/", from(1), agent(8))
		if seconds, _ := strconv.Atoi(a.header.Get("Retry-After")); a.status == http.StatusTooManyRequests && (seconds < 1 || seconds > 100) {
			t.Errorf("%s: Retry-After %q, want the bucket's and not the squeeze's", when, a.header.Get("Retry-After"))
		}
	}
	wantSqueezed("at once")
	s.mustReload(squeezing("max_keys 2000"))
	wantSqueezed("after a reload")
	s.kill()
	s.start()
	s.wantBans(t, 0) // it is throttled, not banned
	wantSqueezed("after a crash")
}

// A page elsewhere can have its visitors' browsers ask for any language, but not say
// that they are another browser: it can't have a household squeezed.
func TestLanguagesAreNoCrowd(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, squeezing(""))
	for i := range 30 {
		s.wantPassed(1, 1, "/", from(1), agent(i%3), fmt.Sprintf("Accept-Language: x%c", 'a'+i/3))
	}
	if strings.Contains(s.mustMetrics(), "caddy_rate_limit_squeezes_total 1") {
		t.Error("squeezed")
	}
	s.get("/", from(1), agent(3))
	waitFor(t, "the squeeze", func() bool { return strings.Contains(s.mustMetrics(), "caddy_rate_limit_squeezes_total 1") })
}

// A limit may be so small that the network's ceiling refuses most of its many clients
// from memory. They count all the same, and one client that insists counts once.
func TestCrowdBeyondTheCeilingIsSqueezed(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, perClient("", "limit 1/1h"))
	squeezed := func() bool { return strings.Contains(s.mustMetrics(), "caddy_rate_limit_squeezes_total 1") }
	for i := range 100 {
		s.get("/", from(1), agent(i%20))
	}
	if squeezed() {
		t.Error("20 browsers are squeezed")
	}
	s.get("/", from(1), agent(20))
	waitFor(t, "the squeeze", squeezed)
	for i := range 200 {
		s.get("/", from(1), agent(i))
	}
	if !squeezed() {
		t.Error("squeezed again while it lasts")
	}
}

func TestNetworksAreNotSqueezedWithoutPressure(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, perClient("pressure off", "limit 4/1h\nprefix_ceiling 100"))
	for i := range 100 {
		s.wantPassed(1, 1, "/", from(1), agent(i))
	}
}

func (s *server) mustMetrics() string {
	s.t.Helper()
	text, err := s.metrics()
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

func TestPlaceholdersOfClients(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, perClient("", "limit 100/1h"))
	ask := func(fields ...string) []string {
		t.Helper()
		a := s.get("/", fields...)
		parts := strings.Fields(a.body)
		if len(parts) != 3 || len(parts[0]) != 32 || strings.Contains(a.body, "192.0.2") {
			t.Fatalf("a client is called %q", a.body)
		}
		return parts
	}
	one := ask(from(1), agent(1))
	if again := ask(from(1), agent(1)); again[0] != one[0] || one[1] != "fingerprint" || one[2] != "false" {
		t.Errorf("one client is called %v and %v", one, again)
	}
	for _, other := range [][]string{ask(from(2), agent(1)), ask(from(1), agent(2)), ask(from(1), "User-Agent: ")} {
		if other[0] == one[0] {
			t.Error("two clients have one name")
		}
	}
	s.kill()
	s.start()
	if again := ask(from(1), agent(1)); again[0] != one[0] {
		t.Error("a client has another name after a crash")
	}
}

// Nobody chooses a network without being trusted, and garbage is no way out.
func TestSpoofedAddresses(t *testing.T) {
	t.Parallel()
	conf := perClient("", "limit 2/1h\nprefix_ceiling 1")
	t.Run("untrusted", func(t *testing.T) {
		s := startCaddy(t, strings.Replace(conf, "trusted_proxies static 127.0.0.1/8", "trusted_proxies static 192.0.2.0/24", 1))
		passed := 0
		for i := range 20 {
			passed += s.passed(1, "/", from(i), agent(i))
		}
		if passed != 2 {
			t.Errorf("%d passed by inventing addresses, want 2", passed)
		}
	})
	t.Run("garbage", func(t *testing.T) {
		s := startCaddy(t, conf)
		passed := 0
		for i, address := range []string{"", "nonsense", "999.1.1.1", "192.0.2.1.evil.example", "[::1", "-", "192.0.2.1:99999:1", strings.Repeat("1.", 500)} {
			passed += s.passed(1, "/", "X-Forwarded-For: "+address, agent(i))
		}
		if passed > 4 { // the connection's address, and what is none, have 2 each at most
			t.Errorf("%d passed with garbage for an address", passed)
		}
		s.wantPassed(2, 3, "/", "X-Forwarded-For: ::ffff:192.0.2.7", agent(1))
		s.wantPassed(0, 1, "/", from(7), agent(1)) // the same address
	})
}

// Keys are verified clients: they feel nothing of the network that they are in.
func TestAPIKeysInACrowd(t *testing.T) {
	t.Parallel()
	conf := perClient("tier x {\nlimit 1/1h\n}\napi_keys {\nmissing default x\nunknown default x\n}", "limit 2/1h\nprefix_ceiling 1")
	s := newServer(t, conf)
	key := s.newKey("acme", "x")
	s.start()
	s.wantPassed(2, 5, "/", from(1), agent(1))
	if a := s.get("/", from(1), agent(2), key); !strings.HasSuffix(a.body, " api_key true") {
		t.Errorf("a client with a key is %q", a.body)
	}
	s.wantPassed(1, 3, "/", from(1), agent(3), key)
	s.wantPassed(0, 2, "/", from(1), agent(4), "X-Api-Key: wrong")
}
