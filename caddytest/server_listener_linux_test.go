package caddytest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// dialFrom opens a connection with a local address. TLS has shaken hands on it; the error says that the server
// has closed it before.
func (s *server) dialFrom(address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: patience}
	c, err := d.Dial("tcp", "127.0.0.1:"+s.tls)
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { c.Close() })
	conn := tls.Client(c, &tls.Config{ServerName: "localhost", InsecureSkipVerify: true})
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	return conn, conn.Handshake()
}

// statusOn sends a request on a connection, and returns the status of the answer, or 0 if there is none.
func statusOn(c net.Conn) int {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return 0
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// guardedSite is a Caddyfile with options of the listener.
func guardedSite(wrapper string) string {
	return options(`rate_limit {
		store_timeout 1m
		rules_file {$DIR}/rules
	}
	http_port {$OTHER}
	https_port {$TLS}
	servers {
		protocols h1 h2
		listener_wrappers {
			rate_limit {
				`+wrapper+`
			}
			tls
		}
	}
`) + "https://localhost:{$TLS} {\ntls internal\nrate_limit {\nzone all {\nlimit 1000/1h\n}\n}\nreverse_proxy /slow {$UPSTREAM}\nrespond / hello\n}\n"
}

// The redirects of automatic HTTPS on port 80 are behind the wrapper, too, if there is a site for that port.
func TestRedirectsAreBehindTheListener(t *testing.T) {
	t.Parallel()
	s := newServer(t, guardedSite("connections 50")+"http:// {\n}\n")
	if err := os.WriteFile(filepath.Join(s.dir, "rules"), []byte("ban 127.0.0.66\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	redirect := func(from string) string {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
		c, err := d.Dial("tcp", "127.0.0.1:"+s.other)
		if err != nil {
			return ""
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		answer, _ := io.ReadAll(c)
		line, _, _ := strings.Cut(string(answer), "\r\n")
		return line
	}
	if got := redirect("127.0.0.2"); got != "HTTP/1.1 308 Permanent Redirect" {
		t.Errorf("a visitor gets %q", got)
	}
	if got := redirect("127.0.0.66"); got != "" {
		t.Errorf("a banned address gets %q", got)
	}
}

// Connections are bounded per network, over reloads too, and banned ones end before TLS. Operators see both.
func TestConnectionsAreBoundedBeforeTLS(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan struct{}, 10), make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(release)
	s := newServer(t, guardedSite("connections 3\nlimit 8/1h\nexcept 127.0.0.1"), "UPSTREAM="+slow.Listener.Addr().String())
	if err := os.WriteFile(filepath.Join(s.dir, "rules"), []byte("ban 127.0.0.66\nallow 127.0.0.77\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	waitFor(t, "the certificate", func() bool {
		_, err := s.dialFrom("127.0.0.1")
		return err == nil
	})
	if _, err := s.dialFrom("127.0.0.66"); err == nil {
		t.Error("a banned client shakes hands")
	}
	var conns []net.Conn
	for n := range 5 {
		c, err := s.dialFrom("127.0.0.2")
		if (err == nil) != (n < 3) {
			t.Errorf("connection %d: got %v", n, err)
		}
		if err == nil {
			conns = append(conns, c)
		}
	}
	for _, address := range []string{"127.0.0.1", "127.0.0.77", "127.0.0.3"} { // excepted, allowed, and another
		for n := range 3 {
			if c, err := s.dialFrom(address); err != nil || statusOn(c) != http.StatusOK {
				t.Errorf("connection %d from %s: got %v", n, address, err)
			}
		}
	}
	s.wantCommand(t, 0, words("explain 127.0.0.66"), "doesn't get that far", "its address is banned")
	s.wantCommand(t, 0, words("explain 127.0.0.2"), "doesn't get that far", "it has 3 open")
	s.wantCommand(t, 0, words("explain 127.0.0.2 --url https://localhost/"), "doesn't get that far", "it has 3 open")
	s.wantCommand(t, 0, words("explain 127.0.0.9"), "passes")

	// Other numbers hold for what is open: Caddy closes connections without requests when it reloads.
	for _, c := range conns {
		if _, err := io.WriteString(c, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "requests under way", func() bool { return len(arrived) == len(conns) })
	reloaded := make(chan error, 1)
	go func() { reloaded <- s.load(guardedSite("connections 4\nlimit 8/1h\nexcept 127.0.0.1")) }() // it waits for these requests
	waitFor(t, "a fourth place", func() bool {
		_, err := s.dialFrom("127.0.0.2")
		return err == nil
	})
	if _, err := s.dialFrom("127.0.0.2"); err == nil {
		t.Error("a fifth connection beside those from before the reload")
	}
	release()
	if err := <-reloaded; err != nil {
		t.Fatal(err)
	}
	for _, c := range conns {
		c.Close()
	}
	waitFor(t, "places", func() bool { // and the four that are left of new connections
		c, err := s.dialFrom("127.0.0.2")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	waitFor(t, "the last new connection", func() bool {
		c, err := s.dialFrom("127.0.0.2")
		if err == nil {
			c.Close()
		}
		out, _, _ := s.rateLimit("explain", "127.0.0.2")
		return strings.Contains(out, "opened too many: the limit is 8/1h")
	})

	metrics, err := s.askAdmin(http.MethodGet, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`caddy_rate_limit_decisions_total{limit="ban",outcome="banned",zone="before_tls"} 1`,
		`caddy_rate_limit_decisions_total{limit="connections",outcome="over_limit",zone="before_tls"}`,
		`caddy_rate_limit_decisions_total{limit="new_connections",outcome="allowed",zone="before_tls"} 11`,
		`caddy_rate_limit_received_requests_total 12`,
	} {
		if !strings.Contains(metrics.body, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	s.wantCommand(t, 0, words("zones"), "before_tls", "4 connections", "8/1h")
	if n := len(s.logLines("connections closed before TLS")); n < 2 || n > 4 {
		t.Errorf("%d lines are logged", n)
	}
	for _, secret := range []string{"127.0.0.66", "127.0.0.2"} {
		for _, line := range s.logLines("connections closed before TLS") {
			if strings.Contains(fmt.Sprint(line["network"]), secret) {
				t.Errorf("the log has %v", line)
			}
		}
	}
}

// A hundred clients that say nothing, where only a PROXY header tells who they are, keep nobody waiting.
func TestSilentConnectionsDelayNobody(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient+`servers {
		listener_wrappers {
			proxy_protocol {
				timeout 1m
				allow 127.0.0.0/8
			}
			rate_limit {
				connections 2
			}
			tls
		}
	}
`)+site("rate_limit {\nzone all {\nlimit 1000/1h\n}\n}\nrespond hello"))
	for range 100 {
		s.dial()
	}
	from := func(address string) net.Conn {
		c := s.dial()
		if _, err := fmt.Fprintf(c, "PROXY TCP4 %s 192.0.2.1 1000 80\r\n", address); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for n, want := range []int{200, 200, 0, 0} {
		if got := statusOn(from("203.0.113.5")); got != want {
			t.Errorf("connection %d: status is %d, want %d", n, got, want)
		}
	}
	if got := statusOn(from("203.0.113.6")); got != http.StatusOK {
		t.Errorf("another client: status is %d", got)
	}
}

// The script that hands bans on to nftables copies banned addresses when a banned client comes, and nothing else.
func TestScriptHandsBansOnToNFTables(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"sh", "curl", "paste"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing", program)
		}
	}
	s := newServer(t, guardedSite("connections 3\nexcept 127.0.0.1"), "UPSTREAM=127.0.0.1:1")
	rules := "ban 127.0.0.66\nban 203.0.113.0/24 # a scraper\nban 2001:db8::/32\nallow 203.0.113.7\nban key:10.1.1.1\n"
	if err := os.WriteFile(filepath.Join(s.dir, "rules"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	done := filepath.Join(s.dir, "done")
	nft := "#!/bin/sh\ncat > " + done + ".new && mv " + done + ".new " + done + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, "nft"), []byte(nft), 0o700); err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "sh", "../examples/nftables/bans.sh", "http://"+s.admin)
	script.Env = append(s.env, "PATH="+s.dir+":"+os.Getenv("PATH"))
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = script.Process.Kill()
		s.stop() // ends the stream
		_ = script.Wait()
	})
	read := func() string {
		text, _ := os.ReadFile(done)
		return string(text)
	}
	waitFor(t, "the bans at the start", func() bool { return read() != "" })
	if text := read(); !strings.Contains(text, "bans4 { 127.0.0.66,203.0.113.0/24 }") || !strings.Contains(text, "bans6 { 2001:db8::/32 }") {
		t.Errorf("nft gets\n%s", text)
	}
	s.wantCommand(t, 0, words("ban 192.0.2.99"))
	if _, err := s.dialFrom("127.0.0.66"); err == nil {
		t.Error("a banned client shakes hands")
	}
	waitFor(t, "a new ban", func() bool { return strings.Contains(read(), "192.0.2.99") })
}
