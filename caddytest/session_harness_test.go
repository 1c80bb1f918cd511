package caddytest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/session"
)

// endpoint is where sessions are earned.
const endpoint = "/.well-known/rate-limit/"

// withSessions is a Caddyfile with sessions that are easily earned.
func withSessions(option, zone string) string {
	return perClient("session {\nchallenge proof_of_work 8\n"+option+"\n}", "on_exceeded challenge\n"+zone)
}

// navigation is what a browser says when a person calls up a page.
var navigation = []string{"Accept: text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}

var pagePuzzle = regexp.MustCompile(`data-puzzle="([^"]+)" data-numbers="(\d+)" data-zeros="(\d+)"`)

// solve returns the form that a page's script sends.
func solve(t *testing.T, page, target string) url.Values {
	t.Helper()
	found := pagePuzzle.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("there is no puzzle in %.300q", page)
	}
	var numbers, zeros int
	fmt.Sscan(found[2]+" "+found[3], &numbers, &zeros)
	return url.Values{"puzzle": {found[1]}, "solution": {solution(found[1], numbers, zeros)}, "target": {target}}
}

func solution(puzzle string, numbers, zeros int) (solution string) {
	for n := uint64(0); numbers > 0; n++ {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(puzzle), n))
		if bits.LeadingZeros64(binary.BigEndian.Uint64(sum[:])) >= zeros {
			solution += fmt.Sprintf("%016x", n)
			numbers--
		}
	}
	return solution
}

// post sends a form to the endpoint.
func (s *server) post(form url.Values, fields ...string) answer {
	s.t.Helper()
	a, err := s.tryPost(form, fields...)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *server) tryPost(form url.Values, fields ...string) (answer, error) {
	r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port+endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return do(s.client, r, fields...)
}

// earn earns a session and returns it as a header field.
func (s *server) earn(fields ...string) string {
	s.t.Helper()
	a := s.post(solve(s.t, s.get(endpoint, fields...).body, "/"), fields...)
	if a.status != http.StatusSeeOther {
		s.t.Fatalf("a solution is answered with %d: %s", a.status, a.body)
	}
	return cookieOf(s.t, a)
}

// cookieOf returns the cookie that an answer sets, as a header field.
func cookieOf(t *testing.T, a answer) string {
	t.Helper()
	cookies := a.header.Values("Set-Cookie")
	if len(cookies) != 1 {
		t.Fatalf("an answer sets the cookies %q", cookies)
	}
	pair, _, _ := strings.Cut(cookies[0], ";")
	return "Cookie: " + pair
}

// kind returns what a client is known by.
func (s *server) kind(fields ...string) string {
	s.t.Helper()
	a := s.get("/", fields...)
	parts := strings.Fields(a.body)
	if a.status != http.StatusOK || len(parts) != 3 {
		s.t.Fatalf("%d %q says nothing of the client", a.status, a.body)
	}
	return parts[1]
}

// secret returns the server's secret, which exists once it has started.
func (s *server) secret() *identity.Secret {
	s.t.Helper()
	secret, err := identity.OpenSecret(filepath.Join(filepath.Dir(s.database()), "tally.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// audience is that of sessions on a test's site.
var audience = session.Audience{Site: "127.0.0.1", Cookie: session.PlainCookie}

// networkOf is the network of a test's client as sessions are bound to it.
func networkOf(client int) []byte {
	return identity.AppendPrefix(nil, netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/32", client)))
}
