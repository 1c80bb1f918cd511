package caddytest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
)

// tiered is a Caddyfile with tiers, of which keys tells where keys are and what
// becomes of those without, and zone how a zone is counted.
func tiered(keys, zone string) string {
	return options(`
	rate_limit {
		store_timeout 1m
		tier free {
			limit 1/1h burst 3
			limit 5/24h name daily
		}
		tier gold {
			limit 1/1h burst 6
			limit 8/24h name daily
		}
		tier internal {
			unlimited
			service_header X-Service-Token {env.SERVICE_TOKEN}
		}
		api_keys {
			`+keys+`
		}
	}
	`+trusting) + site(`
	rate_limit {
		zone api {
			`+zone+`
		}
		headers both
	}
	respond "hello {header.X-Service-Token}{header.X-Api-Key}"
	handle_errors {
		respond "{err.status_code} {err.message}"
	}`)
}

const byKey = "per api_key\ntiers"

const serviceToken = "SERVICE_TOKEN=the-token-of-the-services"

func startTiered(t *testing.T, keys, zone string) *server {
	return startCaddy(t, tiered(keys, zone), serviceToken)
}

// keyCommand runs `caddy rate-limit key` with the server's default file.
func (s *server) keyCommand(args ...string) string {
	s.t.Helper()
	out, errs, status := s.rateLimit(append([]string{"key", "--file", s.keyFile()}, args...)...)
	if status != 0 {
		s.t.Fatalf("caddy rate-limit key %q: %s", args, errs)
	}
	return strings.TrimSpace(out)
}

func (s *server) keyFile() string { return filepath.Join(filepath.Dir(s.database()), "api_keys") }

// newKey makes a key that Caddy knows from then on, as a header field.
func (s *server) newKey(name, tier string) string {
	s.t.Helper()
	made, err := apikeys.New(s.keyFile(), apikeys.Holder{Name: name, Tier: tier})
	if err != nil {
		s.t.Fatal(err)
	}
	key := "X-Api-Key: " + made
	if s.cmd != nil {
		s.awaitStatus(http.StatusOK, http.StatusTooManyRequests, "/?look", key)
	}
	return key
}

// awaitStatus asks until the status is one of two.
func (s *server) awaitStatus(one, other int, path string, fields ...string) {
	s.t.Helper()
	waitFor(s.t, fmt.Sprintf("status %d", one), func() bool {
		status := s.get(path, fields...).status
		return status == one || status == other
	})
}

// want checks the status of an answer, and what its body begins with.
func (s *server) want(status int, body, path string, fields ...string) answer {
	s.t.Helper()
	a := s.get(path, fields...)
	if a.status != status || !strings.HasPrefix(a.body, body) {
		s.t.Errorf("%s %q is answered with %d %q, want %d %q", path, fields, a.status, a.body, status, body)
	}
	return a
}

func TestTiers(t *testing.T) {
	t.Parallel()
	s := newServer(t, tiered("missing default free", byKey), serviceToken)
	acme, second := s.newKey("acme", "gold"), s.newKey("acme", "gold")
	shop, app := s.newKey("vendor/shop", "gold"), s.newKey("vendor/app", "free")
	s.start()

	s.wantPassed(3, 3, "/", acme)
	s.wantPassed(3, 4, "/", second) // of the same client: a burst of 6 is one for both
	s.wantPassed(6, 8, "/", shop)   // its own, as that of
	s.wantPassed(3, 5, "/", app)
	// Those without a key are counted by their address, and not one with a key.
	s.wantPassed(3, 5, "/", from(1))
	s.wantPassed(3, 5, "/", from(2), "X-Api-Key: ")
	metrics, err := s.metrics()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`caddy_rate_limit_api_keys{tier="gold"} 3`, `caddy_rate_limit_api_keys{tier="free"} 1`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
}

// An alert on keys that are gone sees tiers without keys, and none of a config
// that has no keys.
func TestKeysByTierWhereThereAreNone(t *testing.T) {
	t.Parallel()
	s := newServer(t, tiered("", byKey), serviceToken)
	key := s.newKey("acme", "gold")
	s.start()
	if gold, free := s.metric(`caddy_rate_limit_api_keys{tier="gold"}`), s.metric(`caddy_rate_limit_api_keys{tier="free"}`); gold != "1" || free != "0" {
		t.Errorf("%q keys of gold and %q of free, want 1 and 0", gold, free)
	}
	s.keyCommand("revoke", "acme")
	s.awaitStatus(http.StatusForbidden, 0, "/", key)
	if gold := s.metric(`caddy_rate_limit_api_keys{tier="gold"}`); gold != "0" {
		t.Errorf("%q keys of gold, want 0", gold)
	}
	s.mustReload(config("zone z {\nlimit 5/1h\n}"))
	if gold := s.metric(`caddy_rate_limit_api_keys{tier="gold"}`); gold != "" {
		t.Errorf("%q keys of gold in a config without keys", gold)
	}
	if forged := s.metric(`caddy_rate_limit_violations_total{reason="forged"}`); forged != "0" {
		t.Errorf("%q forgeries, want 0", forged)
	}
}

// A refused burst is to be tried again in a second, a spent day in hours.
func TestBurstAndQuota(t *testing.T) {
	t.Parallel()
	s := newServer(t, strings.Replace(tiered("", byKey), "limit 1/1h burst 6", "limit 1/1s burst 6", 1), serviceToken)
	key := s.newKey("acme", "gold")
	s.start()
	passed, retry := 0, 0
	var a answer
	waitFor(t, "the day's quota to be spent", func() bool {
		if a = s.get("/", key); a.status == http.StatusOK {
			passed++
			return false
		}
		retry, _ = strconv.Atoi(a.header.Get("Retry-After"))
		if retry != 1 && passed < 8 {
			t.Errorf("a spent burst is to be tried again in %d s", retry)
		}
		return passed == 8
	})
	if retry < 86000 || retry > 88000 {
		t.Errorf("a spent day is to be tried again in %d s", retry)
	}
	s.wantPassed(0, 5, "/", key)
	for name, want := range map[string]string{
		"X-RateLimit-Remaining": "0", "X-Quota-Limit": "8", "X-Quota-Used": "8",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if reset, err := strconv.Atoi(a.header.Get("X-Quota-Reset")); err != nil || reset > a.retryAfter() || a.retryAfter() > reset+int(longestSpread/time.Second) {
		t.Errorf("X-Quota-Reset is %d, and Retry-After %d: %v", reset, a.retryAfter(), err)
	}
}

func TestQuotaFields(t *testing.T) {
	t.Parallel()
	s := newServer(t, tiered("", byKey), serviceToken)
	key := s.newKey("acme", "gold")
	s.start()
	a := s.get("/", key)
	for name, want := range map[string]string{
		"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "5", // of the burst
		"X-Quota-Limit": "8", "X-Quota-Used": "1",
		"RateLimit-Policy": `"api";q=1;w=3600;burst=6, "daily";q=8;w=86400`,
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if reset, _ := strconv.Atoi(a.header.Get("X-Quota-Reset")); reset < 86000 || reset > 86400 {
		t.Errorf("X-Quota-Reset is %d", reset)
	}
}

// What is used of a quota is what was used, also where less than all of it can be
// had: by a client that has broken limits, or while the database can't be used.
func TestQuotaFieldsTellWhatWasUsed(t *testing.T) {
	t.Parallel()
	const limits = "50/1h burst 50\nlimit 100/24h"
	for name, config := range map[string]string{
		"level":  standing("reputation {\ntrap 80\n}", "headers both\ntrap path /trap", limits),
		"outage": options("rate_limit {\nstore sqlite .\n}") + site("rate_limit {\nheaders both\nzone z {\nper client\nlimit "+limits+"\n}\n}"),
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, config)
			s.get("/trap", agent(1))
			a := s.get("/", agent(1))
			if left := a.header.Get("RateLimit"); !strings.Contains(left, `"z-24h";r=8;`) && !strings.Contains(left, `"z-24h";r=38;`) {
				t.Fatalf("the whole limit is there: %s", left)
			}
			if used, limit := a.header.Get("X-Quota-Used"), a.header.Get("X-Quota-Limit"); used != "2" || limit != "100" {
				t.Errorf("%s of %s are used, want 2 of 100", used, limit)
			}
		})
	}
}

func TestKeysThatAreNotAsTheyShouldBe(t *testing.T) {
	t.Parallel()
	s := newServer(t, tiered("", byKey), serviceToken)
	key := s.newKey("acme", "gold")
	s.start()
	a := s.want(http.StatusUnauthorized, "401 an API key is required", "/")
	if got := a.header.Get("WWW-Authenticate"); got != "ApiKey" {
		t.Errorf("WWW-Authenticate is %q", got)
	}
	s.want(http.StatusUnauthorized, "401", "/", "X-Api-Key: ")
	s.want(http.StatusForbidden, "403 the API key is not known", "/", key+"x")
	s.want(http.StatusForbidden, "403", "/", "X-Api-Key: acme")
	s.want(http.StatusForbidden, "403", "/", "X-Api-Key: "+strings.Repeat("x", 4096))
	s.want(http.StatusBadRequest, "400 the request has two API keys", "/", key, key)
	s.want(http.StatusBadRequest, "400", "/", key, "X-Api-Key: other")
	if n := strings.Count(s.logs(), "panic"); n > 0 {
		t.Error("it panics")
	}
	s.wantPassed(6, 7, "/", key) // none of that was counted
}

// Requests with bad keys are counted by the zones that take no notice of keys,
// wherever these are written, and who is banned stays so with any key.
func TestFloodsOfBadKeysAreCounted(t *testing.T) {
	t.Parallel()
	const keys = "zone api {\nmatch not path /trap\nper api_key\ntiers\n}\n"
	const flood = "zone flood {\nper ip\nlimit 10/1h\n}\n"
	for name, zones := range map[string]string{"before": flood + keys, "after": keys + flood} {
		t.Run(name, func(t *testing.T) {
			config := strings.Replace(tiered("", ""), "zone api {\n\t\t\t\n\t\t}", zones+"trap ban 1h path /trap", 1)
			s := newServer(t, config, serviceToken)
			key := s.newKey("acme", "gold")
			s.start()
			for range 3 {
				s.want(http.StatusUnauthorized, "401", "/", from(1))
				s.want(http.StatusForbidden, "403", "/", from(1), key+"x")
				s.want(http.StatusBadRequest, "400", "/", from(1), key, key)
			}
			s.want(http.StatusOK, "hello", "/", from(1), key)
			for _, bad := range []string{"X-Api-Key: ", key + "x"} {
				if a := s.want(http.StatusTooManyRequests, "429", "/", from(1), bad); a.retryAfter() < 3000 {
					t.Errorf("a flood of bad keys is to stop for %d s", a.retryAfter())
				}
			}
			s.want(http.StatusForbidden, "403", "/", from(2), key+"x")
			s.wantPassed(5, 6, "/", from(2), key) // nothing was taken from who has a key

			s.want(http.StatusTooManyRequests, "429", "/trap", from(3), agent(1))
			s.want(http.StatusTooManyRequests, "429", "/", from(3), agent(1), key+"x")
		})
	}
}

// Inside handle_errors nobody is left to handle another error.
func TestKeysInsideHandleErrors(t *testing.T) {
	t.Parallel()
	config := strings.Replace(tiered("", byKey), "handle_errors {", `error 404
	handle_errors {
		rate_limit {
			zone missing {
				per api_key
				limit 1/1h
			}
		}`, 1)
	s := startCaddy(t, strings.Replace(config, "per api_key\n", "per api_key\nmatch path /elsewhere\n", 1), serviceToken)
	s.want(http.StatusUnauthorized, "", "/")
	s.want(http.StatusForbidden, "", "/", "X-Api-Key: acme")
	if logs := s.logs(); strings.Contains(logs, "error handling handler error") {
		t.Errorf("they are logged as errors:\n%s", logs)
	}
}

// Whoever invents keys is counted by address, however many they are.
func TestInventedKeysAreNoWayAround(t *testing.T) {
	t.Parallel()
	s := startTiered(t, "missing default free\nunknown default", byKey)
	passed := 0
	for i := range 20 {
		passed += s.passed(1, "/", from(1), fmt.Sprintf("X-Api-Key: invented-%d", i))
	}
	if passed != 3 {
		t.Errorf("%d of 20 requests with invented keys pass, want 3", passed)
	}
	s.wantPassed(0, 1, "/", from(1)) // and those without count with them
	s.wantPassed(3, 4, "/", from(2), "X-Api-Key: invented-0")
	metrics, err := s.metrics()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(metrics, "caddy_rate_limit_keys_total 4\n") { // two limits of two addresses
		t.Error("invented keys take memory")
	}
}

func TestKeysAreTakenFromWhereTheConfigSays(t *testing.T) {
	t.Parallel()
	s := newServer(t, tiered("from bearer\nfrom query key\nfrom placeholder {http.request.cookie.key}", byKey), serviceToken)
	key := strings.TrimPrefix(s.newKey("acme", "gold"), "X-Api-Key: ")
	s.start()
	a := s.want(http.StatusUnauthorized, "401", "/", "X-Api-Key: "+key)
	if got := a.header.Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate is %q", got)
	}
	s.want(http.StatusOK, "hello", "/", "Authorization: Bearer "+key)
	s.want(http.StatusOK, "hello", "/", "Authorization: bearer  "+key)
	s.want(http.StatusOK, "hello", "/?key="+key)
	s.want(http.StatusOK, "hello", "/", "Cookie: key="+key)
	s.want(http.StatusOK, "hello", "/?key="+key, "Authorization: Bearer "+key)
	s.want(http.StatusBadRequest, "400 the request has two API keys", "/?key=x", "Authorization: Bearer "+key)
	s.want(http.StatusBadRequest, "400 the request has two API keys", "/?key="+key, "Authorization: Bearer x")
	s.want(http.StatusOK, "hello", "/?key="+key, "Authorization: Basic "+key) // no place of a key
	s.want(http.StatusUnauthorized, "401", "/", "Authorization: Bearer ")
	s.want(http.StatusBadRequest, "400", "/?key="+key+"&key="+key)
	s.want(http.StatusBadRequest, "400", "/", "Authorization: Bearer "+key, "Authorization: Bearer "+key)
}

// However a key is written that upstreams take for one, it counts as that, or the
// request is refused: over HTTP/2 nobody removes the space around a value.
func TestKeysAreNotHidden(t *testing.T) {
	t.Parallel()
	config := strings.Replace(tiered("from header X-Api-Key\nfrom bearer\nmissing default free\nunknown default", byKey), "servers {", "servers {\nprotocols h1 h2c", 1)
	s := newServer(t, config, serviceToken)
	field := s.newKey("acme", "gold")
	key := strings.TrimPrefix(field, "X-Api-Key: ")
	s.start()
	h2c := clientOf(t, (*http.Protocols).SetUnencryptedHTTP2)
	s.wantPassed(6, 7, "/", from(1), field)
	s.wantPassed(3, 4, "/", from(1)) // an anonymous client's own
	for _, c := range []struct {
		name, value string
		status      int
	}{
		{"X-Api-Key", key + " ", 429}, {"X-Api-Key", "\t" + key, 429},
		{"Authorization", "Bearer\t" + key, 429}, {"Authorization", "bearer   " + key + " ", 429},
		{"X-Api-Key", `"` + key + `"`, 400}, {"Authorization", `Bearer "` + key + `"`, 400}, {"Authorization", "Basic a, Bearer " + key, 400},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+s.port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header[c.name] = []string{c.value}
		a, err := do(h2c, r, from(2)) // who would have an anonymous client's quota
		if err != nil || a.status != c.status {
			t.Errorf("%s: %q is answered with %d, want %d: %v", c.name, c.value, a.status, c.status, err)
		}
	}
}

// The file of keys is read again when it changes.
func TestKeysChangeWithoutAReload(t *testing.T) {
	t.Parallel()
	s := startTiered(t, "", byKey)
	if len(s.logLines("there is no file of API keys yet; until there is, all keys are unknown")) != 1 {
		t.Error("nobody was told that there are no keys")
	}
	acme := s.newKey("acme", "free")
	s.wantPassed(2, 5, "/", acme) // one was spent by looking
	other := s.newKey("other", "gold")

	// Another tier is another limit for what is counted already.
	s.keyCommand("revoke", "acme")
	s.awaitStatus(http.StatusForbidden, 0, "/", acme)
	acme = s.newKey("acme", "gold") // which spends one more
	s.wantPassed(2, 5, "/", acme)   // 3 and 1 and 2 are the burst of 6

	// A bad line leaves the keys in force that were.
	keys, err := os.ReadFile(s.keyFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.keyFile()+".new", append(keys, "third platinum 00\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.keyFile()+".new", s.keyFile()); err != nil { // at once: nobody reads half of it
		t.Fatal(err)
	}
	if trouble := s.health().APIKeys; trouble != nil {
		t.Errorf("something is wrong with a good file of keys: %+v", trouble)
	}
	const refused = "the file of API keys has changed and can't be used; its former keys stay in force, also those revoked since, until it is mended"
	waitFor(t, "the bad line to be noticed", func() bool {
		s.want(http.StatusTooManyRequests, "429", "/", acme)
		return len(s.logLines(refused)) > 0
	})
	lines := s.logLines(refused)
	if n := bytesLines(keys); len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["error"]), fmt.Sprintf("line %d: third has the tier", n+1)) {
		t.Errorf("logged: %v", lines)
	}
	const remedy = "free, gold, internal; name one of them, or add the tier to the config"
	if trouble := s.health().APIKeys; trouble == nil || trouble.File != s.keyFile() || time.Since(trouble.Since) > time.Hour ||
		!strings.Contains(trouble.Reason, fmt.Sprintf("line %d: third has the tier", bytesLines(keys)+1)) || !strings.Contains(trouble.Reason, remedy) {
		t.Errorf("the admin endpoint tells of %+v", trouble)
	}
	if s.get("/", other).status == http.StatusForbidden {
		t.Error("a bad line takes the keys away that were there")
	}
	// The config is refused as long as it stands.
	if err := s.reload(tiered("", byKey)); err == nil || !strings.Contains(err.Error(), "third has the tier") {
		t.Errorf("a config is loaded with a bad file of keys: %v", err)
	}
	// Once it is put right, it counts, and the admin endpoint looks at it.
	if err := os.WriteFile(s.keyFile(), keys, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the file to be good", func() bool { return s.health().APIKeys == nil })
}

func bytesLines(text []byte) int { return strings.Count(string(text), "\n") }

func TestServiceHeader(t *testing.T) {
	t.Parallel()
	s := startTiered(t, "missing default free", byKey)
	const right = "X-Service-Token: the-token-of-the-services"
	s.wantPassed(20, 20, "/", from(1), right)
	if a := s.want(http.StatusOK, "hello", "/", from(1), right); a.body != "hello " || len(a.header.Values("RateLimit")) > 0 {
		t.Errorf("a service is answered with %q and told of limits: %v", a.body, a.header)
	}
	for i, wrong := range [][]string{
		{"X-Service-Token: the-token-of-the-service"},
		{"X-Service-Token: "},
		{right, right},
		{right, "X-Service-Token: x"},
		{"X-Service-Token: the-token-of-the-services,the-token-of-the-services"},
	} {
		fields := append(wrong, from(10+i))
		s.wantPassed(3, 5, "/", fields...)
	}
	// Nobody behind sees what was sent.
	s.want(http.StatusOK, "hello ", "/", from(30), "X-Service-Token: guess")
	if a := s.get("/", from(31), "X-Service-Token: guess"); a.body != "hello " {
		t.Errorf("the upstream sees %q", a.body)
	}
}

// What one handler knows of a service, the next knows.
func TestServiceHeaderWithTwoHandlers(t *testing.T) {
	t.Parallel()
	config := strings.Replace(tiered("missing default free", byKey), "headers both\n\t}", "headers both\n\t}\n\troute {\n\trate_limit {\n\t\tzone more {\n\t\t\ttiers\n\t\t}\n\t}\n\t}", 1)
	s := startCaddy(t, config, serviceToken)
	s.wantPassed(20, 20, "/", "X-Service-Token: the-token-of-the-services")
	s.wantPassed(3, 5, "/")
}

func TestTierFromAPlaceholder(t *testing.T) {
	t.Parallel()
	s := startTiered(t, "", "per ip\ntier {http.request.header.X-Plan} free")
	s.wantPassed(6, 8, "/", from(1), "X-Plan: gold")
	s.wantPassed(3, 5, "/", from(2), "X-Plan: free")
	s.wantPassed(3, 5, "/", from(3))
	s.wantPassed(3, 5, "/", from(4), "X-Plan: none such")
	s.wantPassed(20, 20, "/", from(5), "X-Plan: internal") // whoever sets it is to be trusted

	s.mustReload(tiered("", "per ip\ntier {http.request.header.X-Plan}"))
	s.want(http.StatusForbidden, "403 the client has no tier", "/", from(3))
	s.want(http.StatusForbidden, "403", "/", from(3), "X-Plan: none such")
	s.wantPassed(20, 20, "/", from(3), "X-Service-Token: the-token-of-the-services")
}

func TestCostByMatcher(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`zone z {
		limit 100/1h
		cost 40 path /export/*
		cost {http.request.header.X-Batch} {
			path /batch
			method GET
		}
		cost 1 /export/never
		cost 2
		max_cost 50
	}`))
	for i, tt := range []struct {
		path, batch string
		want        int // requests of 100 units that pass
	}{
		{"/export/a", "", 2}, {"/export/never", "", 2}, {"/", "", 50}, {"/batch", "25", 4}, {"/batch", "1000000", 2},
		{"/batch", "", 100}, {"/batch", "x", 2}, {"/other", "25", 50},
	} {
		s.wantPassed(tt.want, tt.want+1, tt.path, from(i), "X-Batch: "+tt.batch)
	}
	if a := s.send(http.MethodPost, "/batch", from(99), "X-Batch: 50"); !strings.Contains(a.header.Get("RateLimit"), "r=98") {
		t.Errorf("a request that no matcher is for leaves %s", a.header.Get("RateLimit"))
	}
}

func TestExempt(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`zone z {
		limit 2/1h
	}
	zone all {
		per everyone
		limit 3/1h
	}
	exempt client_ip 192.0.2.7 198.51.100.0/24
	exempt {
		path /health
		method GET
	}`))
	s.wantPassed(10, 10, "/", from(7))
	s.wantPassed(10, 10, "/", "X-Forwarded-For: 198.51.100.99")
	s.wantPassed(10, 10, "/health", from(1))
	s.wantPassed(2, 3, "/", from(1)) // nothing of that was counted
	if a := s.get("/", from(7)); len(a.header.Values("RateLimit")) > 0 {
		t.Errorf("a client that is exempt is told of limits: %v", a.header)
	}
	if a := s.send(http.MethodPost, "/health", from(1)); a.status != http.StatusTooManyRequests {
		t.Errorf("all of a matcher set must match: status is %d", a.status)
	}
}

// Neither a key nor who it belongs to is in the database, its log, the log or the
// metrics.
func TestNoKeysAtRest(t *testing.T) {
	t.Parallel()
	s := newServer(t, tiered("", byKey), serviceToken)
	key := s.newKey("acme-corporation", "free")
	s.start()
	s.wantPassed(3, 9, "/", key)
	metrics, err := s.metrics()
	if err != nil {
		t.Fatal(err)
	}
	seen := []string{metrics, s.logs()}
	for _, name := range []string{s.database(), s.database() + "-wal"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, string(text))
	}
	for i, text := range seen {
		for _, secret := range []string{strings.TrimPrefix(key, "X-Api-Key: "), "acme-corporation"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in place %d", secret, i)
			}
		}
	}
	keys, err := os.ReadFile(s.keyFile())
	if err != nil || strings.Contains(string(keys), strings.TrimPrefix(key, "X-Api-Key: ")) {
		t.Errorf("the key is in the file, or %v", err)
	}
}

func TestKeyCommand(t *testing.T) {
	t.Parallel()
	s := newServer(t, "")
	file := filepath.Join(s.dir, "keys")
	first := s.keyCommand("new", "acme", "gold", "--file", file)
	second := s.keyCommand("new", "--file", file, "vendor/shop", "free")
	if first == second || strings.ContainsAny(first+second, " \n") {
		t.Errorf("keys are %q and %q", first, second)
	}
	list := strings.Fields(s.keyCommand("list", "--file", file))
	if len(list) != 6 || list[0] != "acme" || list[1] != "gold" || list[3] != "vendor/shop" || list[4] != "free" {
		t.Errorf("listed %q", list)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	s.keyCommand("revoke", "vendor/shop", list[5], "--file", file)
	if list := strings.Fields(s.keyCommand("list", "--file", file)); len(list) != 3 {
		t.Errorf("listed %q", list)
	}
	for _, args := range [][]string{
		{"new", "a b", "gold"}, {"new", "acme"}, {"new", "acme", "free"}, {"new", "acme", "gold", "more"},
		{"list", "more"}, {"revoke"}, {"revoke", "nobody"}, {"revoke", "acme", "00000000"},
		{"revok", "acme"},
	} {
		if _, _, status := s.rateLimit(append([]string{"key", "--file", file}, args...)...); status == 0 {
			t.Errorf("%q succeeds", args)
		}
	}
}
