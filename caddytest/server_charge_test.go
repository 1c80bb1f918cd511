package caddytest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// charge sends a charge to the admin endpoint, as an application does.
func (s *server) charge(t *testing.T, zone, body string) (int, operator.Charged, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+s.admin+operator.Root+"charge/"+zone, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	a, err := do(s.client, r, "Content-Type: application/json")
	if err != nil {
		t.Fatal(err)
	}
	var done operator.Charged
	if a.status == http.StatusOK {
		if err := json.Unmarshal([]byte(a.body), &done); err != nil {
			t.Fatal(err)
		}
	}
	return a.status, done, a.body
}

const chargedZones = `
	zone mails {
		match /mails
		per key {http.request.header.X-User}
		limit 10/24h
		limit 100/24h fixed name daily
	}
	zone networks {
		match /networks
		per ip
		limit 10/24h
	}
	zone bucket {
		match /bucket
		per key {http.request.header.X-User}
		limit 10/24h burst 10
	}
	zone places {
		match /places
		per key {http.request.header.X-User}
		limit 10 concurrent
	}
	zone everyone {
		match /everyone
		per everyone
		limit 10/24h
	}
	zone clients {
		match /clients
		per client
		limit 10/24h
	}`

func TestChargesOfApplications(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(chargedZones))
	for i, test := range []struct {
		zone, body string
		want       string // the answer
	}{
		{"mails", `{"client":"key:42","units":7,"id":"a"}`, `{"zone":"mails","client":"key:42","allowed":true,"units":7,"outcome":"allowed","limit":"mails","left":3}`},
		{"mails", `{"client":"key:42","units":7,"id":"a"}`, `{"zone":"mails","client":"key:42","allowed":true,"units":0,"repeated":true,"outcome":"allowed"}`},
		{"mails", `{"client":"key:42","units":4,"id":"b"}`, `"allowed":false,"units":0,"outcome":"over_limit","limit":"mails","left":3,"retry_after_seconds":`},
		{"mails", `{"client":"key:42","units":11,"id":"b"}`, `"allowed":false,"units":0,"outcome":"too_costly","limit":"mails"}`},
		{"mails", `{"client":"key:42","units":3,"id":"b"}`, `"allowed":true,"units":3,"outcome":"allowed","limit":"mails","left":0}`},
		{"mails", `{"client":"key:43","units":4,"id":"b"}`, `"allowed":true,"units":4,"outcome":"allowed","limit":"mails","left":6}`},
		{"mails", `{"client":"key:42","units":7,"id":"a"}`, `"allowed":true,"units":0,"repeated":true`},
		{"mails", `{"client":"key:42","units":-4,"id":"c"}`, `{"zone":"mails","client":"key:42","allowed":true,"units":-4,"outcome":"allowed","limit":"mails","left":4}`},
		{"mails", `{"client":"key:42","units":-4,"id":"c"}`, `"units":0,"repeated":true`},
		{"mails", `{"client":"key:42","units":5}`, `"allowed":false`},
		{"mails", `{"client":"key:42","units":4}`, `"allowed":true,"units":4,"outcome":"allowed","limit":"mails","left":0}`},
		{"mails", `{"client":"key:42","units":-1000,"id":"d"}`, `"units":-10,`},
		{"mails", `{"client":"key:42","units":-1000,"id":"e"}`, `"units":0,"outcome"`},
		{"mails", `{"client":"key:42","units":10}`, `"allowed":true,"units":10,`},
		{"networks", `{"client":"203.0.113.9","units":2}`, `"client":"203.0.113.9","allowed":true,"units":2,"outcome":"allowed","limit":"networks","left":8}`},
		{"bucket", `{"client":"key:42","units":2}`, `"allowed":true,"units":2,`},
	} {
		if status, _, body := s.charge(t, test.zone, test.body); status != http.StatusOK || !strings.Contains(body, test.want) {
			t.Errorf("%d: %s: %d %swant %s", i, test.body, status, body, test.want)
		}
	}
	for _, step := range []struct{ charge, remaining string }{ // units that were given back are left at once
		{`{"client":"key:45","units":9}`, `"mails";r=0;`},
		{`{"client":"key:45","units":-9,"id":"f"}`, `"mails";r=8;`},
	} {
		s.charge(t, "mails", step.charge)
		if field := s.get("/mails", "X-User: 45").header.Get("RateLimit"); !strings.Contains(field, step.remaining) {
			t.Errorf("after %s a request is told %s, want %s", step.charge, field, step.remaining)
		}
	}
	s.wantPassed(8, 20, "/networks", "X-Forwarded-For: 203.0.113.9")
	s.wantPassed(0, 1, "/mails", "X-User: 42")
	s.wantPassed(6, 7, "/mails", "X-User: 43")
	for _, test := range []struct {
		zone, body string
		status     int
		says       string
	}{
		{"mail", `{"client":"key:42","units":1}`, 404, `there is no \"mail\"`},
		{"", `{"client":"key:42","units":1}`, 404, "charge/mails"},
		{"mails", `{"client":"key:42","units":0}`, 400, "units: got 0"},
		{"mails", `{"client":"key:42","units":549755813889}`, 400, "expected 1 to 549755813888"},
		{"mails", `{"client":"key:42","units":1.5}`, 400, "units"},
		{"mails", `{"client":"key:42","units":-1}`, 400, "id: expected one"},
		{"mails", `{"client":"key:42","units":1,"id":"` + strings.Repeat("x", 129) + `"}`, 400, "129 bytes: expected at most 128"},
		{"mails", `{"client":"key:42","units":1,"id":"a\nb"}`, 400, "no control characters"},
		{"mails", `{"client":"nobody","units":1}`, 400, "key:TEXT"},
		{"mails", `{"client":"203.0.113.9","units":1}`, 409, "expected key:TEXT"},
		{"networks", `{"client":"key:42","units":1}`, 409, "expected an address"},
		{"networks", `{"client":"203.0.112.0/20","units":1}`, 409, "expected an address"},
		{"everyone", `{"client":"key:42","units":1}`, 409, "nobody is told apart"},
		{"clients", `{"client":"203.0.113.9","units":1}`, 409, "expected api-key:NAME"},
		{"places", `{"client":"key:42","units":1}`, 409, "concurrent requests"},
		{"bucket", `{"client":"key:42","units":-1,"id":"a"}`, 409, "token bucket"},
		{"mails", `{"client":"key:42","units":6,"id":"a"}`, 409, `id: \"a\" was used for 7 units, got 6`},
		{"mails", `{"client":"key:42","units":-7,"id":"a"}`, 409, "was used for 7 units, got -7"},
		{"mails", `{"client":"key:42","units":4,"id":"c"}`, 409, "was used for -4 units, got 4"},
	} {
		if status, _, body := s.charge(t, test.zone, test.body); status != test.status || !strings.Contains(body, test.says) {
			t.Errorf("%s %s: %d %swant %d %s", test.zone, test.body, status, body, test.status, test.says)
		}
	}

	s.wantCommand(t, 0, []string{"charge", "mails", "--client", "key:44", "--units", "3", "--id", "x"}, "Charged 3 units to key:44.")
	s.wantCommand(t, 0, []string{"charge", "mails", "--client", "key:44", "--units", "3", "--id", "x"}, "The id was used before: nothing has changed.")
	s.wantCommand(t, 1, []string{"charge", "mails", "--client", "key:44", "--units", "8"}, "Nothing was charged to key:44: over_limit by limit mails. The units are free in")
	s.wantCommand(t, 0, []string{"charge", "mails", "--client", "key:44", "--units=-5", "--id", "y"}, "Gave back 3 units of key:44.")
	s.wantCommand(t, 0, []string{"charge", "mails", "--client", "key:44", "--units=-5", "--id", "z"}, "Gave back nothing: no units that charges took from key:44 still count.")
	if _, err := s.operator().Do(t.Context(), operator.Ban, operator.Command{Client: "key:44"}); err != nil {
		t.Fatal(err)
	}
	if _, done, body := s.charge(t, "mails", `{"client":"key:44","units":1}`); done.Allowed || done.Outcome != "banned" {
		t.Errorf("of a banned client: %s", body)
	}
	acts, err := s.operator().Audit(t.Context(), operator.AuditQuery{Client: "key:44", Charges: true})
	if err != nil || len(acts) != 2 || acts[0].Action != "charge" || acts[0].Reason != "zone mails: -3 units" || acts[1].Reason != "zone mails: 3 units" || acts[1].By != "admin" {
		t.Errorf("the charges are %+v, %v", acts, err)
	}
	if acts, err := s.operator().Audit(t.Context(), operator.AuditQuery{}); err != nil || len(acts) != 1 || acts[0].Action != "ban" {
		t.Errorf("the audit has %+v, %v, want the ban alone", acts, err)
	}
	s.stop()
	for _, limit := range []string{"", "daily"} { // 10 each of 42 and 43, 2 of 45: what was given back isn't used
		if sum, _ := s.pastOf("mails", limit); sum.Units != 22 {
			t.Errorf("limit %q: the history has %d units, want 22", limit, sum.Units)
		}
	}
}

// Charges are sent to two Caddys on one database, again and again with the same ids, while the Caddys are
// killed in turn. Each takes effect, once as far as answers tell, and its units are missing of what is left.
func TestChargesOutliveKills(t *testing.T) {
	t.Parallel()
	const ids, units = 200, 3
	conf := config("zone mails {\nper key {http.request.header.X-User}\nlimit 100000/24h fixed\n}")
	s := startCaddy(t, conf)
	both := []*server{s, startCaddy(t, conf, "XDG_DATA_HOME="+s.data())}
	var mu sync.Mutex
	first := make(map[int]int) // how often each id was charged and not repeated
	charge := func(by *server, id int) bool {
		done, err := by.operator().Charge(context.Background(), operator.Charge{Zone: "mails", Client: "key:1", Units: units, ID: fmt.Sprint(id)})
		if err != nil {
			return false // it is down, or goes down
		}
		mu.Lock()
		defer mu.Unlock()
		if !done.Repeats {
			first[id]++
		}
		return done.Allowed
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for id := range ids {
				for try := worker; !charge(both[try%2], id); try++ {
					if t.Context().Err() != nil {
						return
					}
				}
			}
		})
	}
	for kill := range proof.Times(4, 40) {
		waitFor(t, "charges between two kills", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(first) > min(kill*ids/8, ids/2)
		})
		both[kill%2].kill()
		both[kill%2].start()
	}
	all.Wait()
	for id, n := range first {
		if n > 1 {
			t.Errorf("id %d was charged %d times", id, n)
		}
	}
	for _, process := range both {
		process.stop()
	}
	s.start() // whose memory knows what the other one has charged last
	done, err := s.operator().Charge(t.Context(), operator.Charge{Zone: "mails", Client: "key:1", Units: 1})
	if err != nil || !done.Allowed || done.Left == nil || *done.Left > 100_000-units*ids-1 {
		t.Errorf("after %d charges of %d: %+v, %v", ids, units, done, err)
	}
}
