package caddytest

import (
	"fmt"
	"strings"
	"testing"
)

// A proxy that isn't trusted makes all visitors share one count. When all refused requests of a local
// peer name other addresses, the server asks once whether it is a proxy: in the log, by status and explain.
func TestAnUntrustedProxyIsAskedAbout(t *testing.T) {
	const question = "is 127.0.0.1 a proxy of yours?"
	config := options(patient) + site("rate_limit {\nzone all {\nlimit 5/1h\n}\n}\nrespond %s")
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
