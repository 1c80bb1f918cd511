package caddytest

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// A browser is one client, and a session one session, whatever they speak.
func TestClientsOverAllProtocols(t *testing.T) {
	t.Parallel()
	handlers := `rate_limit {
		zone z {
			match not path /unlimited
			per client
			limit 6/1h
		}
	}
	respond "{http.rate_limit.client} {http.rate_limit.client.kind} {http.request.proto}"`
	s := startCaddy(t, options(`
	rate_limit {
		store_timeout 1m
		session {
			challenge proof_of_work 8
		}
	}
	http_port {$OTHER}
	https_port {$TLS}
	`)+"https://localhost:{$TLS} {\ntls internal\n"+handlers+"\n}\n")
	base := "https://localhost:" + s.tls
	h3 := &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		QUICConfig:      &quic.Config{HandshakeIdleTimeout: patience, MaxIdleTimeout: patience},
	}
	t.Cleanup(func() { h3.Close() })
	clients := map[string]*http.Client{
		"HTTP/1.1": clientOf(t, (*http.Protocols).SetHTTP1),
		"HTTP/2.0": clientOf(t, (*http.Protocols).SetHTTP2),
		"HTTP/3.0": {Timeout: patience, Transport: h3},
	}
	ask := func(proto, method, path string, body string, fields ...string) answer {
		t.Helper()
		r, err := http.NewRequest(method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		client := *clients[proto]
		client.CheckRedirect = s.client.CheckRedirect
		a, err := do(&client, r, fields...)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	waitFor(t, "the certificate", func() bool {
		r, _ := http.NewRequest(http.MethodGet, base+"/unlimited", nil)
		a, err := do(clients["HTTP/2.0"], r)
		return err == nil && a.status == http.StatusOK
	})
	for _, c := range []struct{ kind, field string }{{"fingerprint", agent(1)}, {"session", ""}} {
		fields := []string{agent(1)}
		if c.kind == "session" {
			form := solve(t, ask("HTTP/3.0", "GET", endpoint, "").body, "/")
			a := ask("HTTP/2.0", "POST", endpoint, form.Encode(), "Content-Type: application/x-www-form-urlencoded")
			set := a.header.Get("Set-Cookie")
			if !strings.HasPrefix(set, "__Host-rl=") || !strings.HasSuffix(set, "; Secure") || !strings.Contains(set, "; HttpOnly; SameSite=Lax") {
				t.Errorf("the cookie is set by %q", set)
			}
			fields = append(fields, cookieOf(t, a))
		}
		names := make(map[string]bool)
		for range 2 {
			for proto := range clients {
				a := ask(proto, "GET", "/", "", fields...)
				parts := strings.Fields(a.body)
				if a.status != http.StatusOK || len(parts) != 3 || parts[1] != c.kind || parts[2] != proto {
					t.Fatalf("%s: %d %q, want a %s", proto, a.status, a.body, c.kind)
				}
				names[parts[0]] = true
			}
		}
		if len(names) != 1 {
			t.Errorf("one %s has %d names", c.kind, len(names))
		}
		for proto := range clients {
			if a := ask(proto, "GET", "/", "", fields...); a.status != http.StatusTooManyRequests {
				t.Errorf("%s: a %s has status %d when its limit is used up", proto, c.kind, a.status)
			}
		}
	}
}

// Before the handshake is complete, nobody knows that the address which a request
// comes from is its sender's: it counts for nobody, is exempt and let in for nobody, and
// is asked for again, but where nothing would be counted.
func TestEarlyDataCountsForNobody(t *testing.T) {
	t.Parallel()
	for zone, other := range map[string]int{"per ip": http.StatusOK, "per key {http.request.host}": http.StatusOK, "per client": http.StatusTooEarly} {
		t.Run(zone, func(t *testing.T) {
			s := startCaddy(t, options(`
			rate_limit {
				store_timeout 1m
				session
			}
			http_port {$OTHER}
			https_port {$TLS}
			`)+`https://localhost:{$TLS} {
				tls internal
				log
				rate_limit {
					exempt path /exempt
					exempt {
						path /office
						vars {client_ip} 127.0.0.1
					}
					exempt expression "path('/peer') && {remote_host} == '127.0.0.1'"
					zone z {
						match not path /other /limits/*
						`+zone+`
						limit 3/1h
					}
				}
				rate_limit_dashboard /limits/* {
					allow vars {client_ip} 127.0.0.1
				}
				respond hello
				handle_errors {
					respond "an error"
				}
			}
			`)
			base := "https://localhost:" + s.tls
			secure := clientOf(t, (*http.Protocols).SetHTTP2)
			get := func(client *http.Client, path string) (answer, error) {
				r, err := http.NewRequest(http.MethodGet, base+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				return do(client, r)
			}
			waitFor(t, "the certificate", func() bool {
				a, err := get(secure, "/exempt")
				return err == nil && a.status == http.StatusOK
			})
			tickets := &ticketCache{ClientSessionCache: tls.NewLRUClientSessionCache(1), come: make(chan struct{}, 10)}
			config := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tickets}
			first := &http3.Transport{TLSClientConfig: config}
			t.Cleanup(func() { first.Close() })
			if _, err := get(&http.Client{Timeout: patience, Transport: first}, "/exempt"); err != nil {
				t.Fatal(err)
			}
			select {
			case <-tickets.come:
			case <-time.After(patience):
				t.Fatal("there is no ticket to come back with")
			}

			early := map[string]int{"/": http.StatusTooEarly, endpoint: http.StatusTooEarly, "/exempt": http.StatusOK, "/other": other,
				"/office": http.StatusTooEarly, "/peer": http.StatusTooEarly, "/limits/": http.StatusTooEarly}
			sender := deafTransport(t, config)
			for path := range early {
				r, err := http.NewRequestWithContext(t.Context(), http3.MethodGet0RTT, base+path+"?early", nil)
				if err != nil {
					t.Fatal(err)
				}
				go sender.RoundTrip(r) // ends with the test, in vain
			}
			got := make(map[string]int)
			waitFor(t, "the early requests", func() bool {
				for _, line := range s.logLines("handled request") {
					if path, early := strings.CutSuffix(line["request"].(map[string]any)["uri"].(string), "?early"); early {
						got[path] = int(line["status"].(float64))
					}
				}
				return len(got) == len(early)
			})
			if !maps.Equal(got, early) {
				t.Errorf("early requests are answered with %v, want %v", got, early)
			}
			for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
				if a, err := get(secure, "/"); err != nil || a.status != want {
					t.Errorf("request %d has status %d, want %d: %v", i, a.status, want, err)
				}
			}
		})
	}
}

// ticketCache tells when there is a ticket to begin another connection with.
type ticketCache struct {
	tls.ClientSessionCache
	come chan struct{}
}

func (c *ticketCache) Put(key string, state *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, state)
	c.come <- struct{}{}
}

// deafTransport returns a transport that sends and hears nothing, as if the
// address that it sends from weren't its own: no handshake is ever complete.
func deafTransport(t *testing.T, config *tls.Config) *http3.Transport {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	deaf := &deafConn{PacketConn: conn, closed: make(chan struct{})}
	sender := &quic.Transport{Conn: deaf}
	transport := &http3.Transport{TLSClientConfig: config, Dial: func(ctx context.Context, address string, c *tls.Config, q *quic.Config) (*quic.Conn, error) {
		to, err := net.ResolveUDPAddr("udp4", address)
		if err != nil {
			return nil, err
		}
		return sender.DialEarly(ctx, to, c, q)
	}}
	t.Cleanup(func() {
		transport.Close()
		close(deaf.closed)
		sender.Close()
		conn.Close()
	})
	return transport
}

type deafConn struct {
	net.PacketConn
	closed chan struct{}
}

func (c *deafConn) ReadFrom([]byte) (int, net.Addr, error) {
	<-c.closed
	return 0, nil, net.ErrClosed
}

// Clients without an address are one, until they earn a session.
func TestClientsOfAUnixSocket(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "t") // a short name: sockets allow for 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	s := startCaddy(t, strings.Replace(withSessions("", "limit 3/1h"), "http://:{$PORT} {", "http:// {\nbind unix/"+socket, 1))
	s.client.Transport = &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasSuffix(address, ":"+s.port) {
			network, address = "unix", socket
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	if kind := s.kind(agent(1)); kind != "unknown" {
		t.Errorf("a client without an address is known by a %s", kind)
	}
	s.wantPassed(2, 5, "/", agent(2))
	cookie := s.earn(agent(3))
	s.wantPassed(3, 5, "/", agent(3), cookie)
}
