package caddytest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// protocols are the protocols that a site without and one with TLS may be asked
// in.
const protocols = `
	http_port {$OTHER}
	https_port {$TLS}
	servers {
		protocols h1 h2 h2c
		trusted_proxies static 127.0.0.1/8
	}
	`

// everywhere is a Caddyfile in which one zone holds for a site at {$PORT} and
// one with TLS at {$TLS}.
func everywhere(zone string) string {
	handlers := "rate_limit {\n" + zone + "\n}\nrespond hello"
	return options(patient+protocols) + site(handlers) +
		"https://localhost:{$TLS} {\ntls internal\n" + handlers + "\n}\n"
}

// clientOf returns a client that speaks one protocol only, with and without TLS.
func clientOf(t *testing.T, set func(*http.Protocols, bool)) *http.Client {
	p := new(http.Protocols)
	set(p, true)
	transport := &http.Transport{
		Protocols:       p,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			address = strings.Replace(address, "localhost:", "127.0.0.1:", 1)
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Timeout: patience, Transport: transport}
}

func TestProtocolsAreRefusedAlike(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, everywhere("zone z {\nmatch not path /unlimited\nlimit 6/1h\n}"))
	plain, secure := "http://127.0.0.1:"+s.port, "https://localhost:"+s.tls
	h1 := clientOf(t, (*http.Protocols).SetHTTP1)
	h2 := clientOf(t, (*http.Protocols).SetHTTP2)
	h2c := clientOf(t, (*http.Protocols).SetUnencryptedHTTP2)
	ways := []struct {
		name   string
		client *http.Client
		method string
		url    string
		proto  string
	}{
		{"GET", h1, "GET", plain, "HTTP/1.1"},
		{"HEAD", h1, "HEAD", plain, "HTTP/1.1"},
		{"OPTIONS", h1, "OPTIONS", plain, "HTTP/1.1"},
		{"POST", h1, "POST", plain, "HTTP/1.1"},
		{"h1 with TLS", h1, "GET", secure, "HTTP/1.1"},
		{"h2", h2, "GET", secure, "HTTP/2.0"},
		{"h2 HEAD", h2, "HEAD", secure, "HTTP/2.0"},
		{"h2c", h2c, "GET", plain, "HTTP/2.0"},
		{"h2c OPTIONS", h2c, "OPTIONS", plain, "HTTP/2.0"},
	}
	waitFor(t, "the certificate", func() bool {
		r, _ := http.NewRequest(http.MethodGet, secure+"/unlimited", nil)
		a, err := do(h2, r)
		return err == nil && a.status == http.StatusOK
	})
	// All of them count as one client, whatever they speak.
	for i, want := range map[int]int{0: 200, 5: 200, 7: 200, 4: 200, 1: 200, 6: 200} {
		r, _ := http.NewRequest(ways[i].method, ways[i].url, nil)
		if a, err := do(ways[i].client, r); err != nil || a.status != want {
			t.Errorf("%s: status is %d, want %d: %v", ways[i].name, a.status, want, err)
		}
	}
	for _, way := range ways {
		r, _ := http.NewRequest(way.method, way.url, nil)
		response, err := way.client.Do(r)
		if err != nil {
			t.Errorf("%s: %v", way.name, err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusTooManyRequests || (string(body) == "Too Many Requests\n") == (way.method == http.MethodHead) {
			t.Errorf("%s: status is %d, want 429 with a line of text, got %q: %v", way.name, response.StatusCode, body, err)
		}
		if response.Proto != way.proto {
			t.Errorf("%s: protocol is %s, want %s", way.name, response.Proto, way.proto)
		}
		for _, field := range []string{"Retry-After", "RateLimit", "RateLimit-Policy"} {
			if len(response.Header.Values(field)) != 1 {
				t.Errorf("%s: %s is %q, want one value", way.name, field, response.Header.Values(field))
			}
		}
	}
}

func TestHTTP10IsLimited(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 1/1h\n}"))
	for i, want := range []string{"HTTP/1.0 200", "HTTP/1.0 429"} {
		response := s.raw("GET / HTTP/1.0\r\n\r\n")
		if !strings.HasPrefix(response, want) {
			t.Errorf("response %d is %q, want %s", i, response, want)
		}
		if i == 1 && !strings.Contains(response, "\r\nRetry-After: ") {
			t.Errorf("Retry-After is missing in %q", response)
		}
	}
}

// raw sends bytes and returns those that come back until the connection is
// closed.
func (s *server) raw(request string) string {
	s.t.Helper()
	conn := s.dial()
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		s.t.Fatal(err)
	}
	response, err := io.ReadAll(conn)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(response)
}

// dial connects to the site.
func (s *server) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
	if err != nil {
		s.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func TestForwardedForCountsOnlyFromTrustedProxies(t *testing.T) {
	t.Parallel()
	const zone = "rate_limit {\nzone z {\nlimit 2/1h\n}\n}\nrespond hello"
	t.Run("not trusted", func(t *testing.T) {
		s := startCaddy(t, options(patient)+site(zone))
		s.wantPassed(1, 1, "/", "X-Forwarded-For: 192.0.2.1")
		s.wantPassed(1, 1, "/", "X-Forwarded-For: 192.0.2.2")
		s.wantPassed(0, 1, "/", "X-Forwarded-For: 192.0.2.3")
		s.wantPassed(0, 1, "/")
	})
	t.Run("others trusted", func(t *testing.T) {
		s := startCaddy(t, options(patient+strings.Replace(trusting, "127.0.0.1/8", "10.0.0.0/8", 1))+site(zone))
		s.wantPassed(2, 3, "/", "X-Forwarded-For: 192.0.2.1")
		s.wantPassed(0, 1, "/", "X-Forwarded-For: 192.0.2.2")
	})
	t.Run("trusted", func(t *testing.T) {
		s := startCaddy(t, options(patient+trusting)+site(zone))
		s.wantPassed(2, 3, "/", "X-Forwarded-For: 192.0.2.1")
		s.wantPassed(2, 3, "/", "X-Forwarded-For: 192.0.2.2")
	})
}

func TestOneClientHasOneCountHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	cases, sites := map[string][]string{
		"IPv4 in IPv6":    {"192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201", "192.0.2.1"},
		"one /64":         {"2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:0:1234::", "2001:db8:0000::1"},
		"a port":          {"192.0.2.1", "192.0.2.1:1234", "192.0.2.1", "192.0.2.1:4321"},
		"a zone id":       {"fe80::1", "fe80::1%eth0", "fe80::2%eth1", "fe80::1"},
		"nonsense":        {"nonsense", "other nonsense", "", "unknown"}, // they are the proxy's own requests
		"upper and lower": {"2001:DB8::A", "2001:db8::a", "2001:Db8::A", "2001:db8::a"},
	}, make(map[string]string)
	for name := range cases {
		sites[name] = site("rate_limit {\nzone z {\nlimit 3/1h\n}\n}\nrespond hello")
	}
	eachSite(t, patient+trusting, sites, func(_ *testing.T, s *server, name string) {
		for i, client := range cases[name] {
			s.wantPassed(min(3-i, 1), 1, "/", "X-Forwarded-For: "+client)
		}
		s.wantPassed(1, 1, "/", "X-Forwarded-For: 198.51.100.7")
		s.wantPassed(1, 1, "/", "X-Forwarded-For: 2001:db8:0:1::1")
	})
}

func TestUnixSocketIsLimited(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "t") // a short name: sockets allow for 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	s := startCaddy(t, options(patient)+`http:// {
		bind unix/`+socket+`
		rate_limit {
			zone ip {
				match /ip
				limit 2/1h
			}
			zone key {
				match /key
				key {remote_host}
				events 2
				window 1h
			}
			log_key
		}
		respond hello
	}`)
	s.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	s.wantPassed(2, 4, "/ip")
	s.wantPassed(2, 4, "/key")
}

// A stream is charged once, when it begins, and goes on after the client has
// used up its limit.
func TestStreamsAreChargedOnce(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echo(w)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	}))
	t.Cleanup(b.Close)
	s := startCaddy(t, limitedProxy("2/1h"), "BACKEND="+strings.TrimPrefix(b.URL, "http://"))

	conn := s.dial()
	defer conn.Close()
	socket := bufio.NewReader(conn)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	upgraded, err := http.ReadResponse(socket, nil)
	if err != nil || upgraded.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v %v", upgraded, err)
	}
	if got := upgraded.Header.Values("RateLimit"); len(got) != 1 || !strings.Contains(got[0], ";r=1;") {
		t.Errorf("RateLimit of the upgrade is %q, want 1 to remain", got)
	}
	events, err := s.client.Get("http://127.0.0.1:" + s.port + "/events")
	if err != nil || events.StatusCode != http.StatusOK {
		t.Fatalf("events: %v %v", events, err)
	}
	defer events.Body.Close()
	s.wantPassed(0, 2, "/") // two streams, two units

	stream := bufio.NewReader(events.Body)
	for i := range 5 {
		message := fmt.Sprintf("message %d\n", i)
		io.WriteString(conn, message)
		if got, err := socket.ReadString('\n'); got != message {
			t.Fatalf("got %q, want %q: %v", got, message, err)
		}
		// The backend sends the next event only after this one has come through.
		if got, err := stream.ReadString('\n'); got != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d is %q: %v", i, got, err)
		}
		stream.ReadString('\n')
		next <- struct{}{}
	}
	s.wantPassed(0, 1, "/")
}

// echo takes over a connection and sends back what comes.
func echo(w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	io.Copy(conn, rw)
}
