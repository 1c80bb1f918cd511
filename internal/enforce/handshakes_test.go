package enforce_test

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/listener"
)

// Operators are told of the listener wrapper, once, when banned addresses come over more than 100 TLS connections in
// a second that it would close.
func TestHandshakesOfBannedAddresses(t *testing.T) {
	type requests struct {
		n       int
		apart   time.Duration
		one     bool // over one connection
		peer    string
		version int
		plain   bool // without TLS
		other   bool // refused for something else
	}
	banned := requests{n: 101, peer: "192.0.2.1:9", version: 2}
	with := func(change func(*requests)) requests { r := banned; change(&r); return r }
	for name, tt := range map[string]struct {
		requests
		has  bool // a server has the wrapper
		told bool
	}{
		"many connections":       {banned, false, true},
		"many addresses":         {with(func(r *requests) { r.peer = "203.0.113.9:9" }), false, true},
		"as many as are too few": {with(func(r *requests) { r.n = 100 }), false, false},
		"over a minute":          {with(func(r *requests) { r.n, r.apart = 6000, 10*time.Millisecond }), false, false},
		"over one connection":    {with(func(r *requests) { r.n, r.one = 6000, true }), false, false},
		"without TLS":            {with(func(r *requests) { r.plain = true }), false, false},
		"HTTP/3":                 {with(func(r *requests) { r.version = 3 }), false, false},
		"through a proxy":        {with(func(r *requests) { r.peer = "198.51.100.7:9" }), false, false},
		"by a socket":            {with(func(r *requests) { r.peer = "@" }), false, false},
		"over a limit":           {with(func(r *requests) { r.other = true }), false, false},
		"the wrapper is there":   {banned, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			core, logged := observer.New(zap.WarnLevel)
			h := stating(t, "ban 192.0.2.1\nban 203.0.113.0/24\n")
			h.Log, h.BannedByOperator = zap.New(core), new(enforce.Policy)
			if tt.has {
				h.Config.Doors = append(h.Config.Doors, new(listener.Door))
			}
			v := enforce.Verdict{Refusal: &enforce.Refusal{Policy: h.BannedByOperator}}
			if tt.other {
				v.Refusal.Policy = new(enforce.Policy)
			}
			conn, now := new(tls.ConnectionState), time.Unix(1e9, 0)
			for range tt.n {
				v.Http = &http.Request{RemoteAddr: tt.peer, ProtoMajor: tt.version, TLS: conn}
				if tt.plain {
					v.Http.TLS = nil
				}
				if h.NoteHandshake(&v, func() time.Time { return now }); !tt.one {
					conn = new(tls.ConnectionState)
				}
				now = now.Add(tt.apart)
			}
			if told := logged.Len() > 0; told != tt.told || logged.Len() > 1 {
				t.Fatalf("told %d times", logged.Len())
			}
			if !tt.told {
				return
			}
			if at := logged.All()[0].ContextMap()["see"]; at != "docs/reference/before-tls.md" || !strings.Contains(logged.All()[0].Message, "banned addresses") {
				t.Errorf("%q, see %v", logged.All()[0].Message, at)
			}
			var clients sync.WaitGroup
			for range 4 {
				clients.Go(func() {
					for range 500 {
						own := enforce.Verdict{Refusal: v.Refusal, Http: &http.Request{RemoteAddr: tt.peer, ProtoMajor: 1, TLS: new(tls.ConnectionState)}}
						h.NoteHandshake(&own, func() time.Time { return now })
					}
				})
			}
			if clients.Wait(); logged.Len() != 1 {
				t.Errorf("told %d times", logged.Len())
			}
		})
	}
}
