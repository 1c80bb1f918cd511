package enforce_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

var servers atomic.Int64

// newListener returns a listener that no other test has: questions are asked once in a process.
func newListener() string { return fmt.Sprint(servers.Add(1)) }

// behind returns a handler of a server with a listener, as each reload makes one, and its warnings.
func behind(t *testing.T, listen string) (*enforce.Handler, *observer.ObservedLogs) {
	core, logged := observer.New(zap.WarnLevel)
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	cfg := enforce.NewConfig(zap.New(core), "")
	ctx = ctx.WithValue(caddyhttp.ServerCtxKey, &caddyhttp.Server{Listen: []string{listen}})
	return &enforce.Handler{Config: cfg, Log: zap.New(core), Peer: cfg.PeerOf(ctx)}, logged
}

// refusedFrom returns a refused request of a peer that names another address, or none.
func refusedFrom(peer, named string) *http.Request {
	r := &http.Request{RemoteAddr: peer, Header: make(http.Header)}
	if named != "" {
		r.Header.Set("X-Forwarded-For", named)
	}
	return r
}

// A peer is asked about when all of its last refusals named other addresses.
func TestPeers(t *testing.T) {
	type requests struct {
		n           int
		peer, named string
	}
	for name, tt := range map[string]struct {
		requests []requests
		asked    bool
	}{
		"a proxy on this machine":         {[]requests{{20, "127.0.0.1:9", "203.0.113.1"}}, true},
		"a proxy in a container":          {[]requests{{20, "172.18.0.2:9", "203.0.113.1, 10.0.0.1"}}, true},
		"too few":                         {[]requests{{19, "127.0.0.1:9", "203.0.113.1"}}, false},
		"requests of its own in between":  {[]requests{{15, "127.0.0.1:9", "203.0.113.1"}, {1, "127.0.0.1:9", ""}, {15, "127.0.0.1:9", "203.0.113.1"}}, false},
		"its own address":                 {[]requests{{300, "127.0.0.1:9", "127.0.0.1"}}, false},
		"another peer in between":         {[]requests{{15, "10.0.0.1:9", "203.0.113.1"}, {1, "10.0.0.2:9", "203.0.113.1"}, {15, "10.0.0.1:9", "203.0.113.1"}}, false},
		"a visitor who names nothing":     {[]requests{{15, "10.0.0.1:9", "203.0.113.1"}, {1, "10.0.0.2:9", ""}, {5, "10.0.0.1:9", "203.0.113.1"}}, true},
		"a visitor with a public address": {[]requests{{300, "198.51.100.1:9", "203.0.113.1"}}, false},
		"a peer by a socket":              {[]requests{{300, "@", "203.0.113.1"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, logged := behind(t, newListener())
			for _, part := range tt.requests {
				for range part.n {
					h.NotePeer(refusedFrom(part.peer, part.named))
				}
			}
			if n := logged.Len(); (n == 1) != tt.asked || n > 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// The question is asked once per server, also by concurrent requests and after reloads. Operators still see it.
func TestPeersAreAskedAboutOnce(t *testing.T) {
	listen := newListener()
	first, logged := behind(t, listen)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 500 {
				first.NotePeer(refusedFrom("127.0.0.1:9", "203.0.113.1"))
			}
		})
	}
	clients.Wait()
	reloaded, again := behind(t, listen)
	for range 500 {
		reloaded.NotePeer(refusedFrom("127.0.0.1:9", "203.0.113.1"))
	}
	if logged.Len() != 1 || again.Len() != 0 {
		t.Errorf("asked %d times, and %d times after a reload", logged.Len(), again.Len())
	}
	if n := len(reloaded.Config.Advice.All()); n != 1 {
		t.Errorf("%d pieces of advice after a reload, want 1", n)
	}
	if r := refusedFrom("127.0.0.1:9", "203.0.113.1"); testing.AllocsPerRun(100, func() { first.NotePeer(r) }) != 0 {
		t.Error("a refusal allocates after the question")
	}
}
