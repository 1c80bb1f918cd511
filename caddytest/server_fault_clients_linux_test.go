package caddytest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// startForVanishing starts a Caddy in front of a backend that it keeps no
// connections to, and returns what it holds.
func startForVanishing(t *testing.T) (*server, holdings) {
	t.Helper()
	b := newBackend(t)
	conf := strings.NewReplacer("reverse_proxy", "reverse_proxy /*", "dial_timeout 1m", "dial_timeout 1m\nkeepalive off", "servers {", "servers {\n\t\tprotocols h1 h2c",
		"skip_install_trust", "skip_install_trust\n\tmetrics\n\tlog {\n\t\texclude admin.api\n\t}").Replace(limitedProxy("1000000/300d"))
	s := startCaddy(t, conf, b.env())
	s.wantPassed(1, 1, "/")
	return s, s.holdings()
}

// letThrough returns how many requests Caddy has handled after the rate limiter. Not
// all of them have reached the backend: a client may go between the two.
func (s *server) letThrough() (n int64) {
	s.t.Helper()
	if _, err := fmt.Sscan(s.metric(`caddy_http_requests_total{handler="reverse_proxy",server="srv0"}`), &n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// Clients that reset each request at once (CVE-2023-44487) are charged for what was
// let through, and leave nothing behind.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	s, before := startForVanishing(t)
	requests := proof.Times(1000, 5000)
	for sent := 0; sent < requests; {
		sent += s.resetRapidly(requests - sent)
	}
	s.wantPassed(2, 2, "/")
	s.wantHoldings(before)
	passed := s.letThrough()
	s.stop()
	charged := s.charged()
	t.Logf("%d requests, %d passed, %d charged", requests+3, passed, charged)
	if charged != passed || charged > int64(requests+3) {
		t.Errorf("%d units are charged for %d requests of which %d have passed", charged, requests+3, passed)
	}
}

// Types and flags of HTTP/2 frames (RFC 9113, section 6).
const (
	frameHeaders, frameReset, frameSettings = 1, 3, 4
	endStreamAndHeaders                     = 5
)

func appendFrame(to []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	to = append(to, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	return append(binary.BigEndian.AppendUint32(to, stream), payload...)
}

// resetRapidly sends requests on one connection and resets each of them, until
// the connection is closed. It returns how many it has sent.
func (s *server) resetRapidly(most int) (sent int) {
	conn := s.dial()
	defer conn.Close()
	var drained sync.WaitGroup
	defer drained.Wait()
	drained.Go(func() { io.Copy(io.Discard, conn) })
	defer conn.(*net.TCPConn).CloseWrite()
	get := []byte{0x82, 0x86, 0x84, 0x01, 1, 'x'} // GET http / and an authority, in HPACK
	cancel := []byte{0, 0, 0, 8}
	out := appendFrame([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frameSettings, 0, 0, nil)
	for ; sent < most; sent++ {
		stream := uint32(2*sent + 1)
		out = appendFrame(out, frameHeaders, endStreamAndHeaders, stream, get)
		out = appendFrame(out, frameReset, 0, stream, cancel)
		if _, err := conn.Write(out); err != nil {
			return sent + 1
		}
		out = out[:0]
	}
	return sent
}

// Clients that go away while the store makes their requests wait are charged for
// what has passed, and for nothing else.
func TestClientsThatGoWhileTheyWait(t *testing.T) {
	t.Parallel()
	s, before := startForVanishing(t)
	for round := range proof.Times(2, 5) {
		unlock := lockDatabase(t, s.database())
		var waiting sync.WaitGroup
		for i := range 100 {
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
				defer cancel()
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+s.port+"/", nil)
				do(s.client, r, otherClient(100*round+i)) // it may fail
			})
		}
		waiting.Wait()
		unlock()
	}
	s.awaitRecovery()
	s.wantPassed(2, 2, "/")
	s.wantHoldings(before)
	passed := s.letThrough()
	s.stop()
	charged := s.charged()
	t.Logf("%d passed, %d charged", passed, charged)
	if charged != passed {
		t.Errorf("%d units are charged, %d requests have passed", charged, passed)
	}
}
