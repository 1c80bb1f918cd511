package caddytest

import (
	"net/http"
	"strings"
	"testing"
)

// peerCaddyfile uses everything that mholt/caddy-ratelimit knows, and one option
// that it doesn't: a machine that runs tests may be slow.
const peerCaddyfile = `{
	admin {$ADMIN}
	default_bind 127.0.0.1
	persist_config off
	servers {
		trusted_proxies static 127.0.0.1/8
	}
	rate_limit {
		store_timeout 1m
	}
}

http://:{$PORT} {
	rate_limit {
		distributed {
			read_interval  1s
			write_interval 1s
			purge_age      1d
		}
		storage file_system {$DIR}/peer
		jitter 0.2
		sweep_interval 1m
		log_key
		zone static_example {
			match {
				method GET
				path /static*
			}
			key    static
			events 3
			window 1d
		}
		zone dynamic_example {
			match {
				path /dynamic*
			}
			match path /also
			key         {client_ip}
			events      2
			window      1h
			ipv4_prefix 24
			ipv6_prefix 56
		}
	}
	respond "I'm behind the rate limiter!"

	handle_errors 429 {
		respond "{http.rate_limit.exceeded.name}"
	}
}
`

// peerJSON is the same as adapted by that module: durations are nanoseconds.
const peerJSON = `{"admin":{"listen":"ADMIN","config":{"persist":false}},"apps":{"rate_limit":{"store_timeout":"1m"},"http":{"servers":{"srv0":{
	"listen":["127.0.0.1:PORT"],
	"automatic_https":{"disable":true},
	"trusted_proxies":{"source":"static","ranges":["127.0.0.1/8"]},
	"errors":{"routes":[{"match":[{"expression":"{http.error.status_code} in [429]"}],"handle":[
		{"handler":"static_response","body":"{http.rate_limit.exceeded.name}"}]}]},
	"routes":[{"handle":[
		{"handler":"rate_limit",
			"distributed":{"purge_age":86400000000000,"read_interval":1000000000,"write_interval":"1s"},
			"jitter":0.2,"log_key":true,"sweep_interval":60000000000,
			"storage":{"module":"file_system","root":"DIR/peer"},
			"rate_limits":{
				"static_example":{"key":"static","match":[{"method":["GET"],"path":["/static*"]}],"max_events":3,"window":86400000000000},
				"dynamic_example":{"key":"{http.vars.client_ip}","match":[{"path":["/dynamic*"]},{"path":["/also"]}],
					"max_events":2,"window":"1h","ipv4_prefix":24,"ipv6_prefix":56}}},
		{"handler":"static_response","body":"I'm behind the rate limiter!"}]}]}}}}}`

func TestPeerConfigsLimit(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{"Caddyfile": peerCaddyfile, "JSON": peerJSON} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, conf)
			if name == "JSON" { // a Caddyfile finds them in the environment
				s.setConfig(strings.NewReplacer("ADMIN", s.admin, "PORT", s.port, "DIR", s.dir).Replace(conf))
			}
			s.start()
			if a := s.get("/"); a.status != http.StatusOK || a.body != "I'm behind the rate limiter!" {
				t.Errorf("status %d, body %q", a.status, a.body)
			}
			checkPeerLimits(t, s)
			s.stop()
			s.start()
			a := s.get("/static", from(9))
			if a.status != http.StatusTooManyRequests || a.body != "static_example" || a.retryAfter() < 1 {
				t.Errorf("after a restart: %+v", a)
			}
		})
	}
}

func checkPeerLimits(t *testing.T, s *server) {
	t.Helper()
	// A key without placeholders is one count for all.
	s.wantPassed(2, 2, "/static/a", "X-Forwarded-For: 192.0.2.1")
	s.wantPassed(1, 2, "/static/b", "X-Forwarded-For: 198.51.100.1")
	if a := s.send(http.MethodPost, "/static/a"); a.status != http.StatusOK {
		t.Errorf("a request of no zone gets %d", a.status)
	}
	// A key that is an address is counted by its network.
	s.wantPassed(1, 1, "/dynamic", "X-Forwarded-For: 192.0.2.1")
	s.wantPassed(1, 2, "/also", "X-Forwarded-For: 192.0.2.254")
	s.wantPassed(2, 3, "/dynamic", "X-Forwarded-For: 192.0.3.1")
	s.wantPassed(1, 1, "/dynamic", "X-Forwarded-For: 2001:db8:0:1::1")
	s.wantPassed(1, 2, "/dynamic", "X-Forwarded-For: 2001:db8:0:2::1")
	s.wantPassed(2, 3, "/dynamic", "X-Forwarded-For: 2001:db8:0:100::1")
}
