package caddytest

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// A browser is one client, and a session one session, whatever they speak.
func TestClientsOverAllProtocols(t *testing.T) {
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
	quic := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(func() { quic.Close() })
	clients := map[string]*http.Client{
		"HTTP/1.1": clientOf(t, (*http.Protocols).SetHTTP1),
		"HTTP/2.0": clientOf(t, (*http.Protocols).SetHTTP2),
		"HTTP/3.0": {Timeout: patience, Transport: quic},
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

// Clients without an address are one, until they earn a session.
func TestClientsOfAUnixSocket(t *testing.T) {
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
