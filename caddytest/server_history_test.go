package caddytest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite"
)

// pastOf returns what the database of a server that was stopped has of a series, per day.
func (s *server) pastOf(zone, limit string) (sum storage.Tally, keys int64) {
	s.t.Helper()
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: s.database()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer store.Close()
	now := time.Now()
	for _, r := range storage.Rollups {
		points, err := store.History(context.Background(), storage.HistoryQuery{
			Series: storage.Series{Zone: zone, Limit: limit}, Resolution: r.Resolution,
			From: now.Add(-25 * time.Hour).UnixNano(), To: now.Add(time.Hour).UnixNano(),
		})
		if err != nil {
			s.t.Fatal(err)
		}
		var tally storage.Tally
		for _, p := range points {
			tally.Add(p.Tally)
			keys = max(keys, p.Keys)
		}
		if r.Resolution != time.Minute && tally != sum {
			s.t.Errorf("%q %q: %+v per %v, and %+v with the one before", zone, limit, tally, r.Resolution, sum)
		}
		sum = tally
	}
	return sum, keys
}

// What is decided is in the history once, over reloads that keep the engine and reloads that
// start another one, and over a restart. A clean stop writes all of it.
func TestHistory(t *testing.T) {
	t.Parallel()
	conf := func(i int) string {
		return strings.Replace(config(fmt.Sprintf(`
			zone all {
				limit 40/366d name year
				limit 1000/1h name hour
			}
			zone none {
				match path /none
				limit %d/1h
			}`, 5+i%3)), "store_timeout 1m", fmt.Sprintf("store_timeout %dm", 1+i/3), 1)
	}
	s := startCaddy(t, conf(0))
	sent := 0
	for i := range 6 {
		if i == 4 {
			s.stop()
			s.setConfig(conf(i))
			s.start()
		} else {
			s.mustReload(conf(i))
		}
		s.passed(10, "/")
		sent += 10
	}
	s.stop()
	year, keys := s.pastOf("all", "year")
	if year.Allowed != 40 || year.Units != 40 || year.Refused != int64(sent-40) || year.Blocked > year.Refused || keys != 1 {
		t.Errorf("the limit: %+v of %d keys, want 40 allowed and %d refused of one", year, keys, sent-40)
	}
	if hour, _ := s.pastOf("all", "hour"); hour.Allowed != 40 || hour.Refused != 0 {
		t.Errorf("the limit that refuses nobody: %+v", hour)
	}
	if zone, _ := s.pastOf("all", ""); zone.Allowed != 40 || zone.Refused != int64(sent-40) {
		t.Errorf("the zone: %+v", zone)
	}
	if zone, _ := s.pastOf("none", ""); zone != (storage.Tally{}) {
		t.Errorf("a zone that nobody came to: %+v", zone)
	}
}

// A Caddy that is killed loses what it has not written yet, and nothing else; nothing counts
// twice.
func TestHistoryOverAKill(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 1000/366d\n}"))
	s.wantPassed(5, 5, "/")
	s.stop()
	s.start()
	s.wantPassed(3, 3, "/")
	s.kill()
	s.start()
	s.wantPassed(2, 2, "/")
	s.stop()
	if sum, _ := s.pastOf("z", ""); sum.Allowed != 7 && sum.Allowed != 10 { // the minute may have been over just then
		t.Errorf("%d requests are counted of 5, 3 before a kill, and 2", sum.Allowed)
	}
}

// With history off nothing is counted.
func TestHistoryOff(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(config("zone z {\nlimit 2/1h\n}"), "store_timeout 1m", "store_timeout 1m\nhistory off", 1))
	s.wantPassed(2, 5, "/")
	s.stop()
	if sum, keys := s.pastOf("z", ""); sum != (storage.Tally{}) || keys != 0 {
		t.Errorf("got %+v of %d keys", sum, keys)
	}
}

// Operators can ask for the history and the audit, in which a reload is.
func TestHistoryAndAuditOfOperators(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 2/1h\n}"))
	s.wantPassed(2, 5, "/")
	ask := func(path string, into any) {
		t.Helper()
		a, err := s.askAdmin(http.MethodGet, path)
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("%s: %d %s %v", path, a.status, a.body, err)
		}
		if err := json.Unmarshal([]byte(a.body), into); err != nil {
			t.Fatal(err)
		}
	}
	var past struct {
		Points []struct{ Allowed, Refused, Units, Keys int64 }
	}
	s.mustReload(config("zone z {\nlimit 3/1h\n}"))
	var acts []struct{ By, Action, Target string }
	ask("/rate_limit/audit", &acts)
	if len(acts) != 1 || acts[0].By != "config" || acts[0].Action != "reload" {
		t.Errorf("after a reload the audit is %+v", acts)
	}
	s.stop()
	s.start()
	ask("/rate_limit/history?zone=z", &past)
	allowed := int64(0)
	for _, p := range past.Points {
		allowed += p.Allowed
	}
	if allowed != 2 {
		t.Errorf("after a restart there is %+v, want 2 allowed", past)
	}
}

// The usage of a key survives a restart; another key's isn't in it, and mistakes say what to write.
func TestUsageOfAKey(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone api {\nkey {http.request.header.X-User}\nlimit 3/1h\n}"))
	s.passed(5, "/", "X-User: alice")
	s.passed(2, "/", "X-User: bob")
	s.stop()
	s.start()
	used, err := s.operator().Usage(context.Background(), operator.UsageQuery{Client: "key:alice"})
	units, refused := int64(0), int64(0)
	for _, d := range used.Days { // two of them at midnight
		units, refused = units+d.Units, refused+d.Refused
		if d.Zone != "api" || d.Limit != "api" {
			t.Errorf("got %+v of another limit", d)
		}
	}
	if err != nil || units != 3 || refused != 2 {
		t.Errorf("got %+v, %v, want 3 units and 2 refusals", used, err)
	}
	for _, mistake := range []struct{ client, month, says string }{
		{"api-key:acme", "", `there is no API key named "acme"`},
		{"203.0.113.9", "", "addresses have another name"},
		{"key:alice", "November", `got "November": expected a month such as 20`},
		{"key:alice", "9999-01", "9999-01 has not begun"},
		{"key:alice", "2020-01", "the history of keys begins on"},
	} {
		_, err := s.operator().Usage(context.Background(), operator.UsageQuery{Client: mistake.client, Month: mistake.month})
		if err == nil || !strings.Contains(err.Error(), mistake.says) {
			t.Errorf("%+v: got %v", mistake, err)
		}
	}
}

// The usage of API keys is exact however many keys want more, also over a restart, and as long ago as
// there is a history.
func TestUsageOfAPIKeysIsExact(t *testing.T) {
	t.Parallel()
	s := newServer(t, options("rate_limit {\nstore_timeout 10s\ntier free {\nlimit 100/1h\nlimit 1000/24h name daily\n}\napi_keys {\nmissing deny\n}\n}")+
		site("rate_limit {\nzone api {\ntiers\ncost {http.request.header.X-Cost}\n}\n}\nrespond hello"))
	key := func(name string) string {
		key, err := apikeys.New(filepath.Join(filepath.Dir(s.rulesFile()), "api_keys"), apikeys.Holder{Name: name, Tier: "free"})
		if err != nil {
			t.Fatal(err)
		}
		return "X-Api-Key: " + key
	}
	acme := key("acme")
	var others []string
	for i := range 25 { // more than the history keeps as the heaviest
		others = append(others, key(fmt.Sprintf("other-%d", i)))
	}
	s.start()
	for _, other := range others {
		s.wantPassed(1, 1, "/", other, "X-Cost: 60")
	}
	for range 7 {
		s.get("/", acme, "X-Cost: 1")
	}
	s.get("/", acme, "X-Cost: 99") // refused
	s.stop()
	s.start()
	s.get("/", acme, "X-Cost: 2")
	s.stop()
	s.start()
	units, refused := map[string]int64{}, map[string]int64{}
	used, err := s.operator().Usage(context.Background(), operator.UsageQuery{Client: "api-key:acme"})
	for _, d := range used.Days { // two of them at midnight
		units[d.Limit] += d.Units
		refused[d.Limit] += d.Refused
	}
	if want := map[string]int64{"api": 9, "daily": 9}; err != nil || !maps.Equal(units, want) || refused["api"] != 1 {
		t.Errorf("got %+v, %v, want units %v, and one refusal", used, err, want)
	}
	if _, err := s.operator().Usage(context.Background(), operator.UsageQuery{Client: "api-key:acme", Month: time.Now().UTC().AddDate(0, -14, 0).Format("2006-01")}); err != nil {
		t.Errorf("a month of last year: %v", err)
	}
	s.wantCommand(t, 0, []string{"history", "api"}, "api")
}

// One command has the usage of all API keys of a month, also of one that was revoked meanwhile; and the heaviest keys
// have the names of API keys though memory has forgotten them.
func TestUsageOfAllAPIKeys(t *testing.T) {
	t.Parallel()
	s := newServer(t, options("rate_limit {\nstore_timeout 10s\ntier free {\nlimit 100/1h\n}\napi_keys {\nmissing deny\n}\n}")+
		site("rate_limit {\nzone api {\nper api_key\ntiers\n}\n}\nrespond hello"))
	file := filepath.Join(filepath.Dir(s.rulesFile()), "api_keys")
	for name, n := range map[string]int{"acme": 3, "globex/web": 2, "idle": 0} {
		key, err := apikeys.New(file, apikeys.Holder{Name: name, Tier: "free"})
		if err != nil {
			t.Fatal(err)
		}
		if s.start(); n > 0 {
			s.wantPassed(n, n, "/", "X-Api-Key: "+key)
		}
		s.stop()
	}
	s.start()
	s.wantCommand(t, 0, []string{"key", "revoke", "globex/web", "--file", file}, "")
	used, err := s.operator().Usage(t.Context(), operator.UsageQuery{All: true})
	units := make(map[string]int64)
	for _, d := range used.Days { // two of them at midnight
		units[d.Client+" "+d.Limit] += d.Units
	}
	if want := map[string]int64{"api-key:acme api": 3, "api-key:globex/web api": 2}; err != nil || !maps.Equal(units, want) {
		t.Errorf("got %v, %v, want %v", units, err, want)
	}
	csv, _, code := s.rateLimit("usage", "--all", "--format", "csv")
	if lines := strings.Split(strings.TrimSpace(csv), "\n"); code != 0 || lines[0] != "client,day,zone,limit,units,refused,exact" ||
		strings.Count(csv, "client") != 1 || !strings.Contains(csv, ",api,api,3,0,true") || !strings.Contains(csv, "\napi-key:globex/web,") {
		t.Errorf("got %d,\n%s", code, csv)
	}
	s.wantCommand(t, 0, []string{"usage", "--all"}, "CLIENT", "api-key:acme", "all API keys in 20")
	s.wantCommand(t, 1, []string{"usage", "--all", "--key", "acme"}, "or --all in its place")
	past, err := s.operator().History(t.Context(), operator.HistoryQuery{From: time.Now().Add(-2 * time.Hour), To: time.Now()})
	if err != nil || len(past.Heaviest) != 2 || past.Heaviest[0].Client != "api-key:acme" {
		t.Errorf("the heaviest are %+v, %v", past.Heaviest, err)
	}
}

// Customers see what they have used with their own key, for one unit, also after a restart; over the limit they see what
// refuses them, and nobody sees another's use.
func TestCustomersSeeTheirOwnUse(t *testing.T) {
	t.Parallel()
	s := newServer(t, options("rate_limit {\nstore_timeout 10s\ntier free {\nlimit 4/1h\nlimit 9/month fixed name monthly\n}\napi_keys {\nmissing deny\n}\n}")+
		site("rate_limit {\nzone api {\nper api_key\ntiers\n}\nzone places {\nlimit 5 concurrent\n}\n}\nrespond /usage {http.rate_limit.limits}\nrespond hello\nhandle_errors 429 {\nrespond {http.rate_limit.limits} 429\n}"))
	var keys []string
	for _, name := range []string{"acme", "globex"} {
		key, err := apikeys.New(filepath.Join(filepath.Dir(s.rulesFile()), "api_keys"), apikeys.Holder{Name: name, Tier: "free"})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, "X-Api-Key: "+key)
	}
	want := func(status int, key, limits string) {
		t.Helper()
		a := s.get("/usage", key)
		if got := regexp.MustCompile(`,"reset_seconds":\d+}`).ReplaceAllString(a.body, ""); a.status != status || got != limits || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("got %d, %s: %s, want %s", a.status, a.header.Get("Content-Type"), got, limits)
		}
	}
	s.start()
	s.wantPassed(2, 2, "/", keys[0])
	want(http.StatusOK, keys[0], `[{"zone":"api","limit":"api","amount":4,"used":3,"left":1,{"zone":"api","limit":"monthly","amount":9,"used":3,"left":6]`)
	s.stop()
	s.start()
	want(http.StatusOK, keys[0], `[{"zone":"api","limit":"api","amount":4,"used":4,"left":0,{"zone":"api","limit":"monthly","amount":9,"used":4,"left":5]`)
	want(http.StatusOK, keys[1], `[{"zone":"api","limit":"api","amount":4,"used":1,"left":3,{"zone":"api","limit":"monthly","amount":9,"used":1,"left":8]`)
	want(http.StatusTooManyRequests, keys[0], `[{"zone":"api","limit":"api","amount":4,"used":4,"left":0]`)
	if a := s.get("/usage"); a.status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
}
