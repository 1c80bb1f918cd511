package caddytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// wantPolicy checks the RateLimit-Policy of a request that passes.
func (s *server) wantPolicy(t *testing.T, want, path string, fields ...string) {
	t.Helper()
	if a := s.get(path, fields...); a.status != http.StatusOK || a.header.Get("RateLimit-Policy") != want {
		t.Errorf("%s %v: %d with RateLimit-Policy %q, want %q", path, fields, a.status, a.header.Get("RateLimit-Policy"), want)
	}
}

// A raise by a command holds at once: exactly the raised amount passes, the fields of answers show it, and it survives a
// restart and a kill. It ends by its date, or by a command.
func TestRaises(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`
		headers both
		zone a {
			match /a*
			limit 10/24h
		}
		zone b {
			match /ab*
			limit 20/24h fixed
		}
		zone c {
			match /c
			per key {http.request.header.X-User}
			limit 10/24h
		}`))
	s.wantPassed(10, 20, "/a", from(1))
	for _, bad := range [][2]string{
		{"raise 0x 192.0.2.1", "factor: got \"0x\", expected a factor from 0.01x to 1000x; to admit nothing, write ban"},
		{"raise 5 192.0.2.1", "expected a factor such as 5x, or 0.2x for less"},
		{"raise 5x", "expected caddy rate-limit raise <factor> <client>"},
		{"raise 5x 192.0.2.1 --zone aa", `zone: there is no "aa": expected a, b or c; did you mean a?`},
		{"raise 5x 0.0.0.0/0", "if that is meant, add --force"},
		{"unraise 192.0.2.1", "192.0.2.1: no operator has raised its limits in all zones"},
		{"raise 5x country:DE", "rules about country: no file with countries is configured: write networks <file>"},
		{"ban asn:64496", "rules about asn: no file with autonomous systems is configured"},
	} {
		s.wantCommand(t, 1, words(bad[0]), bad[1])
	}
	s.wantCommand(t, 0, words("raise 5x 192.0.2.1 --for 7d --reason import"), "Limits of 192.0.2.1 are raised 5x until")
	a := s.get("/a", from(1))
	if got := a.header.Get("RateLimit-Policy") + " " + a.header.Get("RateLimit") + " " + a.header.Get("X-RateLimit-Limit") + " " + a.header.Get("X-RateLimit-Remaining"); !strings.HasPrefix(got, `"a";q=50;w=86400 "a";r=39;`) || !strings.HasSuffix(got, " 50 39") {
		t.Errorf("the fields of a raised client are %s", got)
	}
	s.wantPassed(19, 19, "/a", from(1))
	s.stop()
	s.start()
	s.wantPassed(10, 10, "/a", from(1))
	s.kill() // which may leave units of a lease charged
	s.start()
	if passed := s.passed(40, "/a", from(1)); passed < 5 || passed > 10 {
		t.Errorf("after a kill %d pass, want up to 10", passed) // 50 in all
	}
	s.wantPassed(10, 20, "/a", from(2)) // others have what they had

	// Both zones count this path: with a raise of one, its limit of 20 is the tighter one.
	s.wantCommand(t, 0, words("raise 3x 192.0.2.3 --zone a"), "Limits of 192.0.2.3 are raised 3x in zone a until it is lifted")
	s.wantPolicy(t, `"b";q=20;w=86400, "a";q=30;w=86400`, "/ab", from(3))
	s.wantPassed(19, 40, "/ab", from(3))
	s.wantPassed(10, 40, "/a", from(3))
	s.wantCommand(t, 0, words("raise 1.5x 192.0.2.3 --zone a"), "it is in the place of an earlier one")
	s.wantCommand(t, 0, words("explain 192.0.2.3"), "10/24h, raised 1.5x by a rule", "15")
	s.wantCommand(t, 0, words("explain 192.0.2.1 --url http://127.0.0.1:"+s.port+"/a"), "raised 5x by a rule until")
	s.wantCommand(t, 0, words("bans"), "raise 5x", "raise 1.5x", "192.0.2.3", "import")
	s.wantCommand(t, 0, words("status"), "0 bans and 0 allowances, and 2 raises")
	s.wantCommand(t, 0, words("audit"), "raise", "5x import", "3x in zone a")
	if text, err := os.ReadFile(s.rulesFile()); err != nil || !strings.Contains(string(text), "raise 1.5x 192.0.2.3 zone a\n") || strings.Contains(string(text), "raise 3x") {
		t.Errorf("the file is %s, %v", text, err)
	}
	s.wantCommand(t, 1, words("unraise 192.0.2.3"), "no operator has raised its limits in all zones")
	s.wantCommand(t, 0, words("unraise 192.0.2.3 --zone a"), "Limits of 192.0.2.3 are no longer raised in zone a.")
	s.wantPassed(0, 20, "/a", from(3)) // it has had 30

	// Charges of applications have the raised amount, too.
	const charge = `{"client": "key:42", "units": 15}`
	if _, done, body := s.charge(t, "c", charge); done.Allowed {
		t.Errorf("15 units of 10 are charged: %s", body)
	}
	s.wantCommand(t, 0, words("raise 2x key:42"), "raised 2x until it is lifted")
	if _, done, body := s.charge(t, "c", charge); !done.Allowed {
		t.Errorf("15 units of 20 aren't charged: %s", body)
	}
	s.wantPassed(5, 20, "/c", "X-User: 42")
	s.wantPassed(10, 20, "/c", "X-User: 43")

	// Bans win, and allowances: nothing is counted then.
	s.wantCommand(t, 0, words("ban 192.0.2.0/24"), "banned")
	s.wantBannedByOperator(false, "/a", from(1))
	s.wantCommand(t, 0, words("unban 192.0.2.0/24"), "no longer banned")

	// It ends by itself, and what was used before counts.
	s.wantCommand(t, 0, words("raise 2x 192.0.2.4 --for 10s"), "raised 2x until")
	end := time.Now().Add(10 * time.Second)
	s.wantPolicy(t, `"a";q=20;w=86400`, "/a", from(4))
	s.wantPassed(7, 7, "/a", from(4))
	waitFor(t, "the raise to end", func() bool { return !time.Now().Before(end) })
	s.wantPassed(2, 10, "/a", from(4))

	// A line of the file, and its mistakes.
	s.setRules("raise 0.2x 192.0.2.0/24 zone b", "raise 5x 192.0.2.1 zone nowhere")
	s.wantPassed(4, 20, "/ab", from(5))
	waitFor(t, "the zone to be missed", func() bool { return len(s.logLines("some rules have no effect")) > 0 })

	// All bans end together, if that is meant.
	s.setRules("ban 192.0.2.1", "ban 192.0.2.2", "raise 5x 192.0.2.1")
	s.wantCommand(t, 1, words("unban --all"), "this ends the bans of 2 clients, which nothing brings back: if that is meant, add --force")
	s.wantBannedByOperator(false, "/a", from(2))
	s.wantCommand(t, 1, words("unban --all --force 192.0.2.1"), "expected caddy rate-limit unban")
	s.wantCommand(t, 0, words("unban --all --force"), "Lifted 2 bans of 2 clients.")
	s.wantCommand(t, 1, words("unban --all --force"), "nobody is banned")
	s.wantPassed(0, 5, "/a", from(1))
	s.wantCommand(t, 0, words("bans"), "raise 5x")
}

// Rules about countries and autonomous systems hold in all sites; a config without files of networks can't load them.
func TestRulesAboutNetworks(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(config("zone a {\nlimit 10/24h\n}"), "rate_limit {", "rate_limit {\nnetworks {$FILE}", 1)
	s := newServer(t, conf)
	file, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "FILE="+file+"/"+networksFile)
	s.writeRules("ban country:FR", "allow 192.0.2.17", "raise 2x asn:64496")
	s.start()
	s.wantBannedByOperator(false, "/", from(16))
	s.wantPassed(30, 30, "/", from(17)) // allowed by its address
	s.wantPassed(20, 30, "/", from(1))
	s.wantPassed(10, 30, "/", from(40)) // in no network of the file
	s.wantCommand(t, 0, words("ban asn:64496 --for 1h"), "asn:64496 is banned until")
	s.wantBannedByOperator(true, "/", from(2))
	s.wantCommand(t, 0, words("explain 192.0.2.2"), "Banned", "asn:64496")
	s.wantCommand(t, 0, words("unban asn:64496"), "asn:64496 is no longer banned")
	s.wantCommand(t, 0, words("explain country:FR"), "Banned")
	s.wantCommand(t, 1, words("ban country:Germany"), "expected a code of two capital letters (ISO 3166-1), such as country:DE")
	err = s.reload(config("zone a {\nlimit 10/24h\n}"))
	if err == nil || !strings.Contains(err.Error(), "rules about country: no file with countries is configured: write networks") {
		t.Errorf("a config that can't judge the rules loads: %v", err)
	}
}

// A test of the webhooks says what came back.
func TestNotifyTest(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	ops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got <- r.URL.Path; r.URL.Path == "/secret-gone" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	defer ops.Close()
	s := startCaddy(t, config("zone a {\nlimit 10/24h\n}"))
	s.wantCommand(t, 1, words("notify test"), "no webhook is configured: write notify <url>")
	s.wantCommand(t, 1, words("notify tests"), "expected caddy rate-limit notify test")
	s.mustReload(strings.Replace(config("zone a {\nlimit 10/24h\n}"), "rate_limit {", "rate_limit {\nnotify "+ops.URL+"/here {\non ban\n}\nnotify "+ops.URL+"/secret-gone", 1))
	s.wantCommand(t, 1, words("notify test"), "it has taken the message", "the webhook answers with status 410", "1 of 2 webhooks failed")
	if a, b := <-got, <-got; a == b {
		t.Errorf("%s got both", a)
	}
	out, errs, _ := s.rateLimit(words("notify test")...)
	if !strings.Contains(out, "it was tested less than a minute ago") || strings.Contains(out+errs, "secret") || len(got) > 0 {
		t.Errorf("the second test prints %s%s, and sends %d messages", out, errs, len(got))
	}
}

// A raise of one limit, such as a month's quota, leaves the others of its zone as they are, in every tier. It comes
// before one of the zone, is told by explain, and ends alone.
func TestRaiseOfOneLimit(t *testing.T) {
	t.Parallel()
	s := newServer(t, options("rate_limit {\nstore_timeout 10s\ntier free {\nlimit 6/1h\nlimit 10/month fixed name monthly\n}\ntier pro {\nlimit 8/1h\nlimit 20/month fixed name monthly\n}\napi_keys {\nmissing deny\n}\n}")+
		site("rate_limit {\nzone api {\nper api_key\ntiers\n}\n}\nrespond hello"))
	key := make(map[string]string)
	for _, tier := range []string{"free", "pro"} {
		text, err := apikeys.New(filepath.Join(filepath.Dir(s.rulesFile()), "api_keys"), apikeys.Holder{Name: "of-" + tier, Tier: tier})
		if err != nil {
			t.Fatal(err)
		}
		key[tier] = "X-Api-Key: " + text
	}
	s.start()
	const free = `"api";q=6;w=3600, "monthly";q=%d;w=2629746`
	s.wantPolicy(t, fmt.Sprintf(free, 10), "/", key["free"])
	s.wantCommand(t, 1, words("raise 1.5x api-key:of-free --zone api/montly"), `zone: there is no limit "api/montly": expected api/`, "api/monthly")
	s.wantCommand(t, 1, words("raise 1.5x api-key:of-free --zone nowhere/monthly"), `there is no "nowhere/monthly": expected api`)
	s.wantCommand(t, 0, words("raise 1.5x api-key:of-free api-key:of-pro --zone api/monthly --for 7d"), "raised 1.5x in zone api/monthly until")
	s.wantPolicy(t, fmt.Sprintf(free, 15), "/", key["free"])
	s.wantPolicy(t, `"api";q=8;w=3600, "monthly";q=30;w=2629746`, "/", key["pro"])
	s.wantCommand(t, 0, words("raise 3x api-key:of-free --zone api"))
	s.wantPolicy(t, `"monthly";q=15;w=2629746, "api";q=18;w=3600`, "/", key["free"])
	s.wantCommand(t, 0, words("explain api-key:of-free"), "10/month fixed, raised 1.5x by a rule", "6/1h, raised 3x by a rule")
	s.wantCommand(t, 0, words("raise 3x api-key:of-pro --zone api/api"))
	s.wantPolicy(t, `"monthly";q=30;w=2629746, "api";q=24;w=3600`, "/", key["pro"])
	if keys, err := s.operator().Keys(t.Context(), operator.KeysQuery{Zone: "api"}); err != nil || slices.ContainsFunc(keys, func(k operator.Key) bool {
		return k.Client == "api-key:of-pro" && k.Units == "6/1h"
	}) {
		t.Errorf("a raised limit is said to be that of another tier: %+v, %v", keys, err)
	}
	s.stop()
	s.start()
	s.wantPolicy(t, `"monthly";q=15;w=2629746, "api";q=18;w=3600`, "/", key["free"])
	s.wantCommand(t, 0, words("unraise api-key:of-free --zone api/monthly"), "no longer raised in zone api/monthly")
	s.wantCommand(t, 0, words("unraise api-key:of-free --zone api"))
	s.wantPolicy(t, `"api";q=6;w=3600, "monthly";q=10;w=2629746`, "/", key["free"])
}
