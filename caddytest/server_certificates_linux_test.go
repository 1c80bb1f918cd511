package caddytest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// onDemandSite is a Caddyfile of a site that obtains certificates for new names.
const onDemandSite = `https://:{$TLS} {
	tls {
		issuer internal
		on_demand
	}
	respond hello
}
`

// shake shakes hands over QUIC, from an address and for a name. If the client is deaf it hears no reply, as one that has
// forged its address.
func (s *server) shake(address, name string, deaf bool) error {
	s.t.Helper()
	socket, err := net.ListenPacket("udp4", address+":0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { socket.Close() })
	port, err := strconv.Atoi(s.tls)
	if err != nil {
		s.t.Fatal(err)
	}
	var conn net.PacketConn = socket
	wait := patience
	if deaf {
		listens := &deafConn{PacketConn: socket, closed: make(chan struct{})}
		s.t.Cleanup(func() { close(listens.closed) })
		conn, wait = listens, 100*time.Millisecond // it sends its first packet at once, and waits for nothing
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	transport := &quic.Transport{Conn: conn}
	c, err := transport.Dial(ctx, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port},
		&tls.Config{ServerName: name, NextProtos: []string{"h3"}, InsecureSkipVerify: true}, &quic.Config{HandshakeIdleTimeout: wait})
	if err == nil {
		_ = c.CloseWithError(0, "")
	}
	return err
}

// shakeTCP is shake over TCP.
func (s *server) shakeTCP(address, name string) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: patience}
	c, err := tls.DialWithDialer(&d, "tcp", "127.0.0.1:"+s.tls, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err == nil {
		c.Close()
	}
	return err
}

// decided returns how many decisions of a zone have an outcome.
func (s *server) decided(zone, outcome string) (n int) {
	s.t.Helper()
	metrics, err := s.askAdmin(http.MethodGet, "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`decisions_total\{limit="[^"]*",outcome="`+outcome+`",zone="`+zone+`"\} (\d+)`).FindAllStringSubmatch(metrics.body, -1) {
		count, _ := strconv.Atoi(found[1])
		n += count
	}
	return n
}

// An address from which a packet of QUIC seems to come is nobody's: forged packets lock no address out, and any number
// of forged addresses get the certificates of one client. Who begins with HTTP/3 gets in.
func TestForgedAddressesGetNoCertificates(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(`rate_limit {
		store_timeout 1m
	}
	http_port {$OTHER}
	https_port {$TLS}
	on_demand_tls {
		permission rate_limit {
			zone names {
				per ip
				limit 4/1h
			}
		}
	}
`)+onDemandSite)
	if err := s.shake("127.0.0.1", "first.example.com", false); err != nil {
		t.Fatalf("a visitor who begins with HTTP/3: %v", err)
	}
	const forged = 8
	for n := range forged {
		if err := s.shake(fmt.Sprintf("127.0.0.%d", 10+n), fmt.Sprintf("forged%d.example.com", n), true); err == nil {
			t.Fatal("a deaf client shakes hands")
		}
		waitFor(t, "the decision about a forged address", func() bool { return s.decided("names", "[a-z_]+") == 2+n })
	}
	if n := s.decided("names", "allowed"); n != 4 {
		t.Errorf("%d addresses, of which %d are forged, get %d certificates, want 4", 1+forged, forged, n)
	}
	for n := range 4 {
		if err := s.shakeTCP("127.0.0.10", fmt.Sprintf("real%d.example.com", n)); err != nil {
			t.Errorf("the owner of a forged address, name %d: %v", n, err)
		}
	}
	if err := s.shakeTCP("127.0.0.10", "real4.example.com"); err == nil {
		t.Error("over TCP a client gets more than its limit")
	}
	if err := s.shake("127.0.0.1", "first.example.com", false); err != nil {
		t.Errorf("a name with a certificate, over HTTP/3: %v", err)
	}
}
