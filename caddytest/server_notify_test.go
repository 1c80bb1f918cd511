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
