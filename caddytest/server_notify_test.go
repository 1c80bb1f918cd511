package caddytest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// A webhook is told of a ban, without an address, and of a zone that refuses unusually much. While it
// doesn't answer, requests don't wait, and neither does a reload.
func TestNotifications(t *testing.T) {
	t.Parallel()
	got, end := make(chan string, 100), make(chan struct{})
	ops := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	defer ops.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer silent.Close()
	defer close(end)
	wrong := httptest.NewServer(http.NotFoundHandler())
	defer wrong.Close()
	conf := func(headers string) string {
		return strings.Replace(config("headers "+headers+"\ntrap ban 1h path /.env\nzone z {\nlimit 1/1h\n}"), "rate_limit {",
			"rate_limit {\ncleanup_interval 1s\nnotify "+ops.URL+"\nnotify "+ops.URL+" {\non refusals\ntemplate `{{.Zone}} {{json .Kind}}`\n}\nnotify "+silent.URL+"\nnotify "+wrong.URL+" {\non ban\n}", 1)
	}
	s := startCaddy(t, conf("draft"))
	s.get("/.env", from(1))
	var ban struct{ Kind, Reason, Client, Text, Until string }
	body := <-got
	err := json.Unmarshal([]byte(body), &ban)
	if err != nil || ban.Kind != "ban" || ban.Reason != "trap" || ban.Client != "192.0.2.0/24" || strings.Contains(body, "192.0.2.1\"") {
		t.Errorf("got %s, %v", body, err)
	}
	admin := operator.NewRemote("tcp", s.admin)
	for status := (operator.Status{}); status.Undelivered == 0; {
		if status, err = admin.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.wantCommand(t, 0, []string{"status"}, "1 notification could not be delivered since the start: caddy rate-limit notify test says why.", "1 client, the last one ")
	s.mustReload(conf("off"))
	s.passed(1000, "/", from(2))
	bodies := <-got + <-got
	if !strings.Contains(bodies, `z "refusals"`) || !strings.Contains(bodies, `"kind":"refusals"`) || !strings.Contains(bodies, "The zone z refuses ") {
		t.Errorf("got %s", bodies)
	}
	s.mustReload(conf("draft"))
}

// A webhook is told once of a customer who has nearly used up a month, also if a reload comes in between, and what an
// answer or an application has used counts as well.
func TestNotificationsOfQuotas(t *testing.T) {
	t.Parallel()
	got := make(chan string, 100)
	ops := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}))
	defer ops.Close()
	conf := func(headers string) string {
		return strings.Replace(config("headers "+headers+"\nzone months {\nmatch header X-Tenant *\nper key {http.request.header.X-Tenant}\nlimit 100/month fixed name monthly\n}\nzone mails {\nmatch path /mails\nper key {http.request.header.X-User}\nlimit 10/24h fixed\n}"),
			"rate_limit {", "rate_limit {\nnotify "+ops.URL+" {\non quota\n}", 1)
	}
	s := startCaddy(t, conf("draft"))
	s.wantPassed(79, 79, "/", "X-Tenant: acme")
	s.mustReload(conf("off"))
	s.get("/", "X-Tenant: acme")
	var quota struct {
		Kind, Zone, Limit, Client, Text, Until string
		Count, Amount                          int64
	}
	body := <-got
	err := json.Unmarshal([]byte(body), &quota)
	if err != nil || quota.Kind != "quota" || quota.Zone != "months" || quota.Limit != "monthly" || quota.Client != "acme" || quota.Count != 80 || quota.Amount != 100 ||
		!strings.HasPrefix(quota.Text, "acme has used 80 % of the limit monthly of the zone months: 80 of 100 units, until ") || !strings.HasSuffix(quota.Until, "-01T00:00:00Z") {
		t.Errorf("got %s, %v", body, err)
	}
	s.mustReload(conf("draft"))
	s.wantPassed(20, 30, "/", "X-Tenant: acme")
	s.wantCommand(t, 0, words("charge mails --client key:bob --units 9"), "Charged 9 units")
	if body := <-got; !strings.Contains(body, "bob has used 90 % of the limit") {
		t.Errorf("got %s", body)
	}
	if len(got) > 0 {
		t.Errorf("it is told again: %s", <-got)
	}
}
