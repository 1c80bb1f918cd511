package caddytest

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// A WebSocket over HTTP/3 begins with an extended CONNECT, which Caddy hands on as
// a GET. Zones of GET didn't count it, and what is exempt for CONNECT was exempt.
func TestWebSocketsOverHTTP3AreRequestsWithGET(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Method", r.Method+" "+r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(backend.Close)
	s := startCaddy(t, options(patient+`
	http_port {$OTHER}
	https_port {$TLS}
	`)+`https://localhost:{$TLS} {
		tls internal
		rate_limit {
			exempt CONNECT /ws/*
			exempt {
				path /ws/*
				method CONNECT
			}
			zone z {
				match GET /ws/*
				per key {http.request.uri.path}
				limit 2/1h
			}
			zone not_get {
				match {
					not method CONNECT
					not path /ready
				}
				per key {http.request.uri.path}
				limit 3/1h
			}
		}
		reverse_proxy `+strings.TrimPrefix(backend.URL, "http://")+`
	}
	`)
	base := "https://localhost:" + s.tls
	h2 := clientOf(t, (*http.Protocols).SetHTTP2)
	waitFor(t, "the certificate", func() bool {
		r, _ := http.NewRequest(http.MethodGet, base+"/ready", nil)
		a, err := do(h2, r)
		return err == nil && a.status == http.StatusForbidden
	})
	h3 := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(func() { h3.Close() })
	for path, most := range map[string]int{"/ws/": 2, "/other": 3} {
		for n := range 5 {
			status, method := tunnel(t, h3, base+path)
			switch {
			case n < most && (status != http.StatusForbidden || method != "GET websocket"):
				t.Errorf("extended CONNECT %d to %s: status %d, and the backend gets %q", n+1, path, status, method)
			case n >= most && status != http.StatusTooManyRequests:
				t.Errorf("extended CONNECT %d to %s isn't refused: status %d, and the backend gets %q", n+1, path, status, method)
			}
		}
	}
}

// tunnel asks for a WebSocket by an extended CONNECT, and returns the status, and the method
// that the backend has seen.
func tunnel(t *testing.T, transport *http3.Transport, url string) (status int, method string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	body, end := io.Pipe()
	defer end.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodConnect, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Proto = "websocket"
	a, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	return a.StatusCode, a.Header.Get("X-Method")
}
