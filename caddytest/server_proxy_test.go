package caddytest

import (
	"fmt"
	"strings"
	"testing"
)

// A proxy that isn't trusted makes all visitors share one count. When all refused requests of a local
// peer name other addresses, the server asks once whether it is a proxy: in the log, by status and explain.
func TestAnUntrustedProxyIsAskedAbout(t *testing.T) {
	for name, servers := range map[string]string{"none is trusted": "", "another one is": "servers {\ntrusted_proxies static 172.18.0.2\ntrusted_proxies_strict\n}\n"} {
		t.Run(name, func(t *testing.T) { checkAsked(t, servers) })
	}
}

// checkAsked checks that a server with options asks about its only peer.
func checkAsked(t *testing.T, servers string) {
	t.Helper()
	const question = "is 127.0.0.1 a proxy of yours?"
	config := options(patient+servers) + site("rate_limit {\nzone all {\nlimit 5/1h\n}\n}\nrespond %s")
	s := startCaddy(t, fmt.Sprintf(config, "hello"))
	for i := range 20 { // of which five pass
		s.get("/", fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", i))
	}
	s.get("/") // a request of the machine itself
	for i := range 19 {
		s.get("/", fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", i))
	}
	if strings.Contains(s.logs(), question) {
		t.Fatal("asked although the peer sends requests of its own")
	}
	for i := range 25 {
		s.get("/", fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", i))
	}
	if err := s.reload(fmt.Sprintf(config, "again")); err != nil {
		t.Fatal(err)
	}
	for range 25 {
		s.get("/", "X-Forwarded-For: 203.0.113.1")
	}
	if n := strings.Count(s.logs(), question); n != 1 {
		t.Errorf("asked %d times in the log, want once", n)
	}
	s.wantCommand(t, 0, words("status"), question, "trusted_proxies static 127.0.0.1")
	s.wantCommand(t, 0, words("explain 127.0.0.1"), question)
}

// Visitors of the local network come through a proxy, and trusted_proxies has their network instead of the proxy's
// address: all share the proxy's count, and whoever asks directly writes any address. Once there are three, it is
// asked about, until trusted_proxies has the proxy alone.
func TestVisitorsOfATrustedNetworkAreAskedAbout(t *testing.T) {
	const question = "visitors of your own network are taken for proxies"
	conf := func(trusted string) string {
		return options(patient+"servers {\ntrusted_proxies static "+trusted+"\ntrusted_proxies_strict\n}\n") +
			site("rate_limit {\nzone all {\nlimit 50/1h\n}\n}\nrespond hello")
	}
	s := startCaddy(t, conf("private_ranges"))
	visit := func(n int) {
		for i := range n {
			s.get("/", fmt.Sprintf("X-Forwarded-For: 192.168.1.%d", i), "User-Agent: Mozilla/5.0 (X11; Linux x86_64)")
		}
		s.get("/", "X-Forwarded-For: 203.0.113.7", "User-Agent: Mozilla/5.0 (X11; Linux x86_64)")
	}
	visit(2)
	visit(2)
	if strings.Contains(s.logs(), question) {
		t.Fatal("asked about two")
	}
	s.mustReload(conf("private_ranges") + "\n")
	visit(10)
	s.mustReload(conf("private_ranges"))
	visit(10)
	if n := strings.Count(s.logs(), question); n != 1 {
		t.Errorf("asked %d times in the log, want once", n)
	}
	s.wantCommand(t, 0, words("status"), question)
	s.mustReload(conf("127.0.0.1"))
	visit(10)
	if status, err := s.operator().Status(t.Context()); err != nil || strings.Contains(fmt.Sprint(status.Advice), question) {
		t.Errorf("status: %v, %v", status.Advice, err)
	}
}
