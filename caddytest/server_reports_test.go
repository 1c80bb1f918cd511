package caddytest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-tally/caddy-tally"
)

func TestLogHasOneLineForEachBlockedKey(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 2/1h\n}\nzone unused {\nmatch /unused\nlimit 1/1h\n}"))
	for client := range 5 {
		s.wantPassed(2, 30, "/", from(client))
		if passed := s.passedOfBurst(50, "/", from(100+client)); passed != 2 {
			t.Errorf("%d passed, want 2", passed)
		}
	}
	s.stop()
	lines := s.logLines("rate limit exceeded")
	if len(lines) != 10 {
		t.Errorf("%d lines say who was refused first, want 10 for 10 clients", len(lines))
	}
	for _, line := range lines {
		if line["zone"] != "z" || line["level"] != "info" || line["logger"] != "http.handlers.rate_limit" || line["wait"] == nil {
			t.Errorf("line is %v", line)
		}
	}
	var refused float64
	for _, line := range s.logLines("requests refused") {
		refused += line["requests"].(float64)
	}
	if refused != 5*(28+48) {
		t.Errorf("%v requests were refused in sum, want %d", refused, 5*(28+48))
	}
	if lines := strings.Count(s.logs(), "\n"); lines > 60 {
		t.Errorf("the log has %d lines in all for 380 refusals", lines)
	}
	if strings.Contains(s.logs(), "192.0.2.") {
		t.Error("the log shows an address")
	}
}

// However many clients are refused, the log takes a few lines a second.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nper key {http.request.header.X-Tenant}\nlimit 1/1h\n}"))
	begin := time.Now()
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for i := range 150 {
				s.passedOfBurst(2, "/", fmt.Sprint("X-Tenant: ", worker, "-", i))
			}
		})
	}
	load.Wait()
	seconds := int(time.Since(begin)/time.Second) + 2
	if lines := len(s.logLines("rate limit exceeded")); lines > 10*seconds || lines < 10 {
		t.Errorf("%d lines in %d seconds, want 10 a second at most", lines, seconds)
	}
}

func TestMetricsGoOnAfterReload(t *testing.T) {
	t.Parallel()
	conf := config("zone api {\nlimit 5/1h\nlimit 50/24h name daily\nmatch /api\n}")
	s := startCaddy(t, conf)
	check := func(requests, declined int) {
		t.Helper()
		metrics, err := s.metrics()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`caddy_rate_limit_requests_total{zone="api"} ` + fmt.Sprint(requests),
			`caddy_rate_limit_declined_requests_total{zone="api"} ` + fmt.Sprint(declined),
			`caddy_rate_limit_requests_total{zone="false"} 2`,
			`caddy_rate_limit_decisions_total{limit="api",outcome="allowed",zone="api"} 5`,
			`caddy_rate_limit_decisions_total{limit="daily",outcome="allowed",zone="api"} 5`,
			`caddy_rate_limit_process_time_seconds_count{zone="api"} ` + fmt.Sprint(requests),
			`caddy_rate_limit_config{ipv4_prefix="0",ipv6_prefix="0",max_events="5",window="1h0m0s",zone="api"} 1`,
			`caddy_rate_limit_keys 2`, `caddy_rate_limit_keys_total 2`,
			`caddy_rate_limit_degraded 0`,
			`caddy_rate_limit_outages_total 0`,
		} {
			if !strings.Contains(metrics, "\n"+want+"\n") {
				t.Errorf("metrics lack %s", want)
			}
		}
		for _, name := range []string{"store_bytes", "store_claims_total", "store_seconds_count", "store_batch_claims_count"} {
			if !regexp.MustCompile(`(?m)^caddy_rate_limit_` + name + ` [1-9]`).MatchString(metrics) {
				t.Errorf("metrics lack a %s above zero", name)
			}
		}
		if t.Failed() {
			t.Log(metrics[strings.Index(metrics, "# HELP caddy_rate_limit"):])
		}
	}
	s.wantPassed(5, 8, "/api")
	s.wantPassed(2, 2, "/other")
	check(8, 3)
	s.mustReload(conf)
	check(8, 3)
	s.mustReload(strings.Replace(conf, "hello", "bye", 1))
	s.wantPassed(0, 4, "/api")
	check(12, 7)
}

// subscriber is an event handler that tells the test what it is told.
type subscriber struct{}

var events = make(chan caddy.Event, 100)

func init() { caddy.RegisterModule(subscriber{}) }

func (subscriber) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.caddytest", New: func() caddy.Module { return subscriber{} }}
}

func (subscriber) Handle(_ context.Context, e caddy.Event) error {
	events <- e
	return nil
}

var _ caddyevents.Handler = subscriber{}

// This one needs a Caddy in the process of the test.
func TestEventReachesSubscriber(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	address := "127.0.0.1:" + freePort(t)
	err := caddy.Load(fmt.Appendf(nil, `{
		"admin": {"disabled": true, "config": {"persist": false}},
		"logging": {"logs": {"default": {"level": "ERROR"}}},
		"storage": {"module": "file_system", "root": %q},
		"apps": {
			"rate_limit": {"store": {"engine": "sqlite", "path": %q}, "store_timeout": "1m"},
			"tls": {"disable_storage_clean": true},
			"events": {"subscriptions": [{"events": ["rate_limit_exceeded", "rate_limit_ban"], "handlers": [{"handler": "caddytest"}]}]},
			"http": {"servers": {"srv": {
				"listen": [%q],
				"automatic_https": {"disable": true},
				"routes": [{"handle": [
					{"handler": "rate_limit", "zones": [{"name": "login", "limits": [{"amount": 1, "window": "1h"}]}], "traps": [{"ban": "1h", "match": [{"path": ["/.env"]}]}]},
					{"handler": "static_response"}]}]
			}}}
		}
	}`, t.TempDir(), filepath.Join(t.TempDir(), "tally.db"), address), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	client := newClient()
	t.Cleanup(client.CloseIdleConnections)
	for i, want := range []int{200, 429, 429} {
		r, _ := http.NewRequest(http.MethodGet, "http://"+address, nil)
		if a, err := do(client, r); err != nil || a.status != want {
			t.Errorf("request %d: status is %d, want %d: %v", i, a.status, want, err)
		}
	}
	for range 2 {
		select {
		case e := <-events:
			wait, _ := e.Data["wait"].(time.Duration)
			if e.Data["zone"] != "login" || net.ParseIP(fmt.Sprint(e.Data["remote_ip"])) == nil || e.Data["client_ip"] != e.Data["remote_ip"] || wait <= 0 || wait > 2*time.Hour {
				t.Errorf("data is %v", e.Data)
			}
			if got := e.Origin().CaddyModule().ID; got != "http.handlers.rate_limit" {
				t.Errorf("origin is %s", got)
			}
		case <-time.After(patience):
			t.Fatal("there is no event")
		}
	}
	select {
	case e := <-events:
		t.Errorf("there is another event: %v", e.Data)
	default:
	}
	r, _ := http.NewRequest(http.MethodGet, "http://"+address+"/.env", nil)
	if _, err := do(client, r); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the event of a ban", func() bool {
		select {
		case e := <-events:
			return e.Name() == "rate_limit_ban" && e.Data["client"] == "127.0.0.0/24" && e.Data["reason"] == "trap" && e.Origin().CaddyModule().ID == "rate_limit"
		default:
			return false
		}
	})
}
