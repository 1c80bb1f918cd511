package enforce_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// BenchmarkShadow measures the cost of two shadow limits: as a part of the handler's time, and of a
// whole request over a connection on this machine. Compare results of one run.
func BenchmarkShadow(b *testing.B) {
	year := config.Limit{Amount: 1 << 40, Window: 366 * 24 * 3600e9}
	named := func(name string, shadow bool) config.Limit {
		l := year
		l.Name, l.Shadow = name, shadow
		return l
	}
	for _, tt := range []struct {
		name   string
		limits []config.Limit
	}{
		{"none", []config.Limit{year}},
		{"two", []config.Limit{year, named("a", true), named("b", true)}},
		{"two-enforced", []config.Limit{year, named("a", false), named("b", false)}},
	} {
		handler := func(b *testing.B) *enforce.Handler {
			return zoneHandler(b, &config.Zone{Name: "bench", Limits: tt.limits})
		}
		b.Run("handler/shadows="+tt.name, func(b *testing.B) { benchHandlerServe(b, handler(b), 1000, 2) })
		b.Run("server/shadows="+tt.name, func(b *testing.B) { benchServer(b, handler(b)) })
	}
}

// benchServer makes a server answer requests over persistent connections.
func benchServer(b *testing.B, h *enforce.Handler) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	caddyServer := new(caddyhttp.Server)
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, caddyServer)
		caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "192.0.2.1")
		h.ServeHTTP(w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.Write([]byte("fine"))
			return err
		}))
	})}
	go server.Serve(listener)
	b.Cleanup(func() { server.Close() })
	url := "http://" + listener.Addr().String() + "/"
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
		defer client.CloseIdleConnections()
		for pb.Next() {
			answer, err := client.Get(url)
			if err != nil {
				b.Error(err)
				return
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				b.Error(fmt.Sprint("answered ", answer.Status))
			}
		}
	})
}
