package caddytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// aDay is a config with every kind of limit, whose refusals have a reference.
var aDay = options(`
	rate_limit {
		store_timeout 1m
		pressure off
		tier pro {
			limit 6/1h
			limit 100/24h name daily
		}
		tier free {
			limit 2/1h
		}
		api_keys {
			missing default free
		}
	}
	`+trusting) + site(`
	rate_limit {
		zone login {
			match /login
			limit 2/1h
		}
		zone people {
			match /people
			per client
			limit 3/1h
		}
		zone tenant {
			match /tenant
			per key {http.request.header.X-Tenant}
			limit 3/1h
		}
		zone api {
			match /api
			per api_key
			tiers
		}
		trap ban 1h path /.env
	}
	handle_errors {
		respond "{http.rate_limit.exceeded.id}"
	}
	respond hello`)

// operatorsDay is a server that operators look after.
type operatorsDay struct {
	*server
	*operator.Remote
	key string // the field with the API key of acme
}

func TestOperatorsDay(t *testing.T) {
	t.Parallel()
	s := newServer(t, aDay)
	key, err := apikeys.New(filepath.Join(filepath.Dir(s.rulesFile()), "api_keys"), apikeys.Holder{Name: "acme", Tier: "pro"})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	d := &operatorsDay{s, s.operator(), "X-Api-Key: " + key}
	for _, sub := range []struct {
		name string
		test func(*operatorsDay, *testing.T)
	}{
		{"explain", (*operatorsDay).explains}, {"tiers", (*operatorsDay).explainsTiers}, {"what is unknown", (*operatorsDay).knowsNothing}, {"reference", (*operatorsDay).opensReferences},
		{"reset", (*operatorsDay).resets}, {"ban and unban", (*operatorsDay).bans}, {"allow", (*operatorsDay).allows}, {"conduct", (*operatorsDay).pardons},
		{"history", (*operatorsDay).looksBack}, {"audit", (*operatorsDay).isAudited}, {"privacy", (*operatorsDay).keepsPrivate},
	} {
		t.Run(sub.name, func(t *testing.T) { sub.test(d, t) })
	}
}

// said is how a test names a client's address.
func said(address string) string { return "X-Forwarded-For: " + address }

func (d *operatorsDay) ask(t *testing.T, q operator.Question) operator.Explanation {
	t.Helper()
	if path, ok := strings.CutPrefix(q.URL, "/"); ok {
		q.URL = "http://" + "127.0.0.1:" + d.port + "/" + path
	}
	e, err := d.Explain(t.Context(), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return e
}

// lines returns what an explanation says of limits.
func lines(e operator.Explanation) string {
	var all []string
	for _, l := range e.Limits {
		all = append(all, fmt.Sprintf("%s %s %d/%d", l.Zone, l.Text, l.Used, l.Amount))
	}
	return strings.Join(all, ", ")
}

// explains tries that each next request gets what is forecast.
func (d *operatorsDay) explains(t *testing.T) {
	for _, c := range []struct {
		client, path string
		fields       []string
		passes       int
	}{
		{"203.0.113.1", "/login", []string{said("203.0.113.1")}, 2},
		{"2001:db8::1", "/login", []string{said("2001:db8::1")}, 2},
		{"203.0.113.2", "/people", []string{said("203.0.113.2"), "User-Agent: a"}, 3},
		{"203.0.113.3", "/tenant", []string{said("203.0.113.3"), "X-Tenant: bob"}, 3},
		{"203.0.113.4", "/api", []string{said("203.0.113.4")}, 2},
		{"203.0.113.5", "/api", []string{said("203.0.113.5"), d.key}, 6},
		{"203.0.113.6", "/other", []string{said("203.0.113.6")}, 9},
	} {
		header := make(http.Header)
		for _, field := range c.fields[1:] {
			name, value, _ := strings.Cut(field, ": ")
			header.Set(name, value)
		}
		for i := range 9 {
			e := d.ask(t, operator.Question{Client: c.client, URL: c.path, Header: header})
			status := d.get(c.path, c.fields...).status
			if (e.Next.Status == 0) != (status == http.StatusOK) || (status == http.StatusOK) != (i < c.passes) {
				t.Errorf("%s %v, request %d: status %d, forecast %+v", c.path, c.fields, i, status, e.Next)
			}
		}
	}
	if e := d.ask(t, operator.Question{Client: "key:bob"}); e.Next.Limit != "tenant" || lines(e) != "tenant 3/1h 3/3" {
		t.Errorf("of bob it says %+v", e)
	}
	if e := d.ask(t, operator.Question{Client: "203.0.113.3"}); !strings.HasSuffix(e.Next.Text, "unless zone tenant refuses it, which doesn't count by address: ask with a URL") || strings.Contains(lines(e), "tenant") {
		t.Errorf("of an address that is refused by another key it says %+v", e)
	}
	want := "login 2/1h 2/2, people 12/1h 0/12, api 2/1h 0/2"
	if e := d.ask(t, operator.Question{Client: "203.0.113.1"}); e.Next.Limit != "login" || lines(e) != want {
		t.Errorf("got %s, want %s; next %+v", lines(e), want, e.Next)
	}
}

// explainsTiers tries that limits of several tiers that count together aren't mistaken.
func (d *operatorsDay) explainsTiers(t *testing.T) {
	e := d.ask(t, operator.Question{Client: "api-key:acme"})
	if want := "people 3/1h 0/3, api 6/1h 6/6, api 100/24h 6/100"; lines(e) != want || e.Tier != "pro" {
		t.Errorf("of acme it says %s of tier %q, want %s", lines(e), e.Tier, want)
	}
	e = d.ask(t, operator.Question{Client: "203.0.113.4", URL: "/api"})
	if e.Tier != "free" || strings.Contains(e.TierReason, "its API key") {
		t.Errorf("without a key: tier %q, %s", e.Tier, e.TierReason)
	}
	keys, err := d.Keys(t.Context(), operator.KeysQuery{Zone: "api"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if want := map[string]string{"203.0.113.4": "free", "api-key:acme": "pro"}[k.Client]; k.Tier != want {
			t.Errorf("%s is of tier %q, want %q", k.Client, k.Tier, want)
		}
	}
}

func (d *operatorsDay) knowsNothing(t *testing.T) {
	for _, client := range []string{"api-key:nobody", "session:1f2e3d4c5b6a7980", "ref:" + strings.Repeat("0", 64)} {
		e, err := d.Explain(t.Context(), operator.Question{Client: client})
		wantStatus(t, err, http.StatusNotFound, fmt.Sprintf("%s: %+v", client, e))
	}
	_, err := d.Do(t.Context(), operator.Reset, operator.Command{Client: "198.51.100.99"})
	wantStatus(t, err, http.StatusNotFound, "reset")
	_, err = d.Do(t.Context(), operator.Unban, operator.Command{Client: "198.51.100.99"})
	wantStatus(t, err, http.StatusNotFound, "unban")
}

func wantStatus(t *testing.T, err error, status int, what string) {
	t.Helper()
	if refusal, ok := errors.AsType[*operator.Error](err); !ok || refusal.Status != status {
		t.Errorf("%s: got %v, want status %d", what, err, status)
	}
}

// opensReferences tries that a reference leads to its client, as it is in problem details, too.
func (d *operatorsDay) opensReferences(t *testing.T) {
	refused := d.get("/login", said("203.0.113.1"))
	for _, text := range []string{"ref:" + refused.body, "urn:caddy-tally:" + refused.body} {
		if e := d.ask(t, operator.Question{Client: text}); e.Client != "203.0.113.1" || e.Refusal == nil || e.Refusal.Limit != "login" || e.Next.Limit != "login" {
			t.Errorf("%s: got %+v", text, e)
		}
	}
	done, err := d.Do(t.Context(), operator.Reset, operator.Command{Client: "ref:" + refused.body})
	if err != nil || done.Changed != 1 {
		t.Errorf("got %+v, %v", done, err)
	}
	d.wantPassed(2, 3, "/login", said("203.0.113.1"))
	d.wantPassed(0, 1, "/login", said("2001:db8::1"))
}

func (d *operatorsDay) resets(t *testing.T) {
	for _, c := range []struct{ client, path, field string }{
		{"203.0.113.1", "/login", said("203.0.113.1")}, {"key:bob", "/tenant", "X-Tenant: bob"},
	} {
		if _, err := d.Do(t.Context(), operator.Reset, operator.Command{Client: c.client, Reason: "a test"}); err != nil {
			t.Fatal(err)
		}
		if e := d.ask(t, operator.Question{Client: c.client}); e.Next.Outcome != "allowed" {
			t.Errorf("%s: got %+v", c.client, e.Next)
		}
		if passed := d.passed(9, c.path, c.field); passed != 2 && passed != 3 {
			t.Errorf("%s: %d pass after a reset", c.client, passed)
		}
	}
}

// inForce waits until a rule about a client is in force, or no more.
func (d *operatorsDay) inForce(t *testing.T, client string, action operator.Action) {
	t.Helper()
	waitFor(t, "the file to be read", func() bool {
		e := d.ask(t, operator.Question{Client: client})
		return e.Rule == nil && action == "" || e.Rule != nil && e.Rule.Action == action
	})
}

func (d *operatorsDay) bans(t *testing.T) {
	const client = "198.51.100.201"
	for _, whom := range []string{client, "198.51.100.0/24"} {
		if _, err := d.Do(t.Context(), operator.Ban, operator.Command{Client: whom, For: operator.SecondsOf(time.Hour), Reason: "scraper"}); err != nil {
			t.Fatal(err)
		}
		d.inForce(t, client, operator.Ban)
		refused := d.get("/other", said(client))
		if refused.status != http.StatusTooManyRequests || d.ask(t, operator.Question{Client: client, URL: "/other"}).Next.Outcome != "banned" {
			t.Errorf("a banned client gets %d", refused.status)
		}
		if e := d.ask(t, operator.Question{Client: "ref:" + refused.body}); e.Next.Outcome == "allowed" {
			t.Errorf("the reference of a banned client says that it passes: %+v", e)
		}
		if whom != client {
			_, err := d.Do(t.Context(), operator.Unban, operator.Command{Client: client})
			if wantStatus(t, err, http.StatusNotFound, "unban"); !strings.Contains(err.Error(), whom) {
				t.Errorf("%v doesn't name the wider ban", err)
			}
		}
		if _, err := d.Do(t.Context(), operator.Unban, operator.Command{Client: whom}); err != nil {
			t.Fatal(err)
		}
		d.inForce(t, client, "")
		d.wantPassed(1, 1, "/other", said(client))
	}
}

func (d *operatorsDay) allows(t *testing.T) {
	const client = "203.0.113.77"
	if _, err := d.Do(t.Context(), operator.Allow, operator.Command{Client: client, For: operator.SecondsOf(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	d.inForce(t, client, operator.Allow)
	d.wantPassed(9, 9, "/login", said(client))
	if _, err := d.Do(t.Context(), operator.Disallow, operator.Command{Client: client}); err != nil {
		t.Fatal(err)
	}
	d.inForce(t, client, "")
	d.wantPassed(2, 9, "/login", said(client))
}

// pardons tries that the reference of a ban is enough to lift it.
func (d *operatorsDay) pardons(t *testing.T) {
	who := []string{said("203.0.113.78"), "User-Agent: bad"}
	refused := d.get("/.env", who...)
	if e := d.ask(t, operator.Question{Client: "ref:" + refused.body}); e.Ban == nil || e.Next.Outcome != "banned" || e.Client != "203.0.113.78" {
		t.Errorf("got %+v", e)
	}
	e := d.ask(t, operator.Question{Client: "203.0.113.78", URL: "/other", Header: http.Header{"User-Agent": {"good"}}})
	if got := d.get("/other", who[0], "User-Agent: good").status; got != http.StatusOK || e.Next.Status != 0 || !strings.Contains(e.Next.Text, "another client") {
		t.Errorf("another client at its address: status %d, forecast %+v", got, e.Next)
	}
	if done, err := d.Do(t.Context(), operator.Unban, operator.Command{Client: "ref:" + refused.body}); err != nil || done.Bans != 1 {
		t.Fatalf("%+v, %v, want one ban lifted", done, err)
	}
	d.wantPassed(1, 1, "/other", who...)
}

// looksBack tries that a history of more than the weeks for which keys are kept can be had.
func (d *operatorsDay) looksBack(t *testing.T) {
	if _, err := d.History(t.Context(), operator.HistoryQuery{From: time.Now().AddDate(-1, 0, 0)}); err != nil {
		t.Error(err)
	}
}

func (d *operatorsDay) isAudited(t *testing.T) {
	acts, err := d.Audit(t.Context(), operator.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range acts {
		got = append(got, a.Action)
		if a.By != "admin" {
			t.Errorf("got %+v", a)
		}
	}
	for _, action := range []string{"reset", "ban", "unban", "allow", "disallow"} {
		if !strings.Contains(strings.Join(got, " "), action) {
			t.Errorf("%s isn't in %q", action, got)
		}
	}
}

// keepsPrivate tries that no file, log, metric or audit shows who was dealt with. The file of
// bans and allowances is aside, which people read and write.
func (d *operatorsDay) keepsPrivate(t *testing.T) {
	acts, err := d.Audit(t.Context(), operator.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(acts)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := d.metrics()
	if err != nil {
		t.Fatal(err)
	}
	places := map[string][]byte{"the audit": text, "/metrics": []byte(metrics), "the log": []byte(d.logs())}
	err = filepath.WalkDir(filepath.Dir(d.database()), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || file == d.rulesFile() {
			return err
		}
		places[file], err = os.ReadFile(file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for place, content := range places {
		for _, known := range []string{"203.0.113.", "198.51.100.", "2001:db8::", "bob"} {
			if bytes.Contains(content, []byte(known)) {
				t.Errorf("%s shows %s", place, known)
			}
		}
	}
}
