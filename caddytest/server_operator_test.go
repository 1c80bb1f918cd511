package caddytest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// operator returns a client of the server's admin endpoint.
func (s *server) operator() *operator.Remote { return operator.NewRemote("tcp", s.admin) }

// A command in the first moments after a start was told that no rate limiter runs.
func TestOperatorsWaitForTheStart(t *testing.T) {
	t.Parallel()
	s := newServer(t, config("zone z {\nlimit 1/1h\n}"))
	s.launch()
	asked := 0
	for begin := time.Now(); asked < 20 && time.Since(begin) < patience; {
		r, err := http.NewRequest(http.MethodPost, "http://"+s.admin+operator.Root+"reset", strings.NewReader(`{"client": "192.0.2.1", "zone": "z"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		a, err := do(s.client, r, "Content-Type: application/json")
		if err != nil {
			continue // nobody listens yet
		}
		if asked++; a.status != http.StatusNotFound { // since the limit has counted nothing
			t.Fatalf("request %d: %d %s", asked, a.status, a.body)
		}
	}
	if asked < 20 {
		t.Errorf("%d requests were answered", asked)
	}
}

func TestOperatorsSeeWhatRuns(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient+trusting)+site(`
		rate_limit {
			zone login {
				match /login
				limit 2/1h
				limit 5/24h fixed name daily
			}
			zone names {
				match /name
				per key {http.request.header.X-Name}
				limit 1/1h burst 3
			}
			zone people {
				match /people
				per client
				limit 9/1h
			}
		}
		respond hello`))
	s.wantPassed(2, 5, "/login", "X-Forwarded-For: 203.0.113.9")
	s.wantPassed(3, 3, "/name", "X-Name: alice")

	t.Run("status", func(t *testing.T) {
		status, err := s.operator().Status(t.Context())
		if err != nil || len(status.Stores) != 1 || status.Stores[0].Path != s.database() || status.Started.IsZero() {
			t.Errorf("got %+v, %v", status, err)
		}
	})
	t.Run("zones", func(t *testing.T) { s.wantZones(t) })
	t.Run("events", func(t *testing.T) { s.wantEvents(t) })
	t.Run("mistakes", func(t *testing.T) { s.wantMistakes(t) })
	t.Run("a reload ends streams", func(t *testing.T) {
		events, err := s.operator().Events(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.mustReload(config("zone z {\nlimit 1/1h\n}"))
		for range events { // until it is closed
		}
	})
	t.Run("no limits", func(t *testing.T) {
		s.mustReload(options("") + site("respond hello"))
		if zones, err := s.operator().Zones(t.Context()); err != nil || len(zones) != 0 {
			t.Errorf("got %+v, %v", zones, err)
		}
	})
	if logs := s.logs(); strings.Contains(logs, "203.0.113.9") || strings.Contains(logs, "alice") {
		t.Error("the log names a client")
	}
}

func (s *server) wantZones(t *testing.T) {
	zones, err := s.operator().Zones(t.Context())
	if err != nil || len(zones) != 3 {
		t.Fatalf("got %+v, %v", zones, err)
	}
	login, names, people := zones[0], zones[1], zones[2]
	if login.Name != "login" || login.Per != "ip" || login.Counts != (operator.Counts{Allowed: 2, Refused: 3, Blocked: 2}) {
		t.Errorf("login is %+v", login)
	}
	for i, want := range []string{"login 2/1h", "daily 5/24h fixed"} {
		if l := login.Limits[i]; l.Name+" "+l.Text != want || l.Allowed != 2 || l.Keys != 1 {
			t.Errorf("limit %d of login is %+v, want %s", i, l, want)
		}
	}
	if l := names.Limits[0]; names.Per != "key {http.request.header.X-Name}" || l.Text != "1/1h burst 3" || l.Capacity != 3 || names.Allowed != 3 {
		t.Errorf("names is %+v", names)
	}
	var limits []string
	for _, l := range people.Limits {
		limits = append(limits, l.Name)
	}
	if got := strings.Join(limits, " "); got != "people people-network people-elsewhere" {
		t.Errorf("people has %s", got)
	}
}

func (s *server) wantEvents(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := s.operator().Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := <-events
	if first.Totals == nil || first.Totals.Refused != 3 || first.Totals.Zones["login"].Allowed != 2 {
		t.Fatalf("the first event is %+v", first.Totals)
	}
	s.passed(1, "/login", "X-Forwarded-For: 203.0.113.9")
	var refused *operator.Refused
	var totals int64
	for refused == nil || totals < 4 {
		switch event := <-events; {
		case event.Refused != nil:
			refused = event.Refused
		case event.Totals != nil:
			totals = event.Totals.Refused
		default:
			t.Fatal("the stream has ended")
		}
	}
	if refused.Zone != "login" || refused.Text != "203.0.113.0/24" || refused.Reason != "blocked" || refused.Retry <= 0 {
		t.Errorf("refused is %+v", refused)
	}
}

func (s *server) wantMistakes(t *testing.T) {
	for _, test := range []struct {
		method, path, kind string
		status             int
	}{
		{http.MethodGet, "/rate_limit/nothing", "", http.StatusNotFound},
		{http.MethodPost, "/rate_limit/zones", "", http.StatusMethodNotAllowed},
		{http.MethodGet, "/rate_limit/ban", "", http.StatusMethodNotAllowed},
		{http.MethodPost, "/rate_limit/ban", "text/plain", http.StatusUnsupportedMediaType},
		{http.MethodPost, "/rate_limit/ban", "application/json", http.StatusRequestEntityTooLarge},
	} {
		r, err := http.NewRequest(test.method, "http://"+s.admin+test.path, io.LimitReader(zeros{}, 10<<20))
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		a, err := do(s.client, r, "Content-Type: "+test.kind)
		if errors.Is(err, io.EOF) || err != nil && test.status == http.StatusRequestEntityTooLarge {
			continue // the server closes what it doesn't read
		}
		if err != nil || a.status != test.status || !strings.HasPrefix(a.body, `{"status":`) {
			t.Errorf("%s %s: status %d, %s, %v", test.method, test.path, a.status, a.body, err)
		}
	}
	var said *operator.Error
	if _, err := s.operator().Do(t.Context(), operator.Ban, operator.Command{Client: "somebody"}); !errors.As(err, &said) {
		t.Errorf("got %v", err)
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
