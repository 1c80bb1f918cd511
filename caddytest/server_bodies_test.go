package caddytest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// newReader is an app that says how many bytes have come, their sum and their trailers, and tells of
// the beginning of a body to /begun.
func newReader(t *testing.T) (app *httptest.Server, begun chan bool) {
	begun = make(chan bool, 1)
	app = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, sum := make([]byte, 1), sha256.New()
		n, _ := io.ReadFull(r.Body, first)
		if r.URL.Path == "/begun" {
			begun <- true
		}
		sum.Write(first[:n])
		more, err := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %x %v %s", int64(n)+more, sum.Sum(nil), err, r.Trailer.Get("X-Sum"))
	}))
	t.Cleanup(app.Close)
	return app, begun
}

// Bodies arrive byte for byte where a key or a cost is a placeholder of the body, also through map
// and over HTTP/2, in chunks, with trailers and after 100 Continue. No more than 64 KiB are waited
// for, and a client that leaves is no request of the app.
func TestBodiesInKeysArrive(t *testing.T) {
	t.Parallel()
	app, begun := newReader(t)
	s := startCaddy(t, options(patient+`
	servers {
		protocols h1 h2c
	}`)+site(`
	map {http.request.body} {map.first} {
		~^(.) "$1"
		default "{http.request.body_base64}"
	}
	rate_limit {
		zone bodies {
			per key {http.request.body}{map.first}
			cost {http.request.body_base64}
			max_cost 1
			limit 1000/1h
		}
	}
	reverse_proxy {$BACKEND}`), "BACKEND="+strings.TrimPrefix(app.URL, "http://"))
	for _, size := range []int{1, 511, 512, 513, 64 << 10, 64<<10 + 1, 3 << 20} {
		body := strings.Repeat("guessing\n", size)[:size]
		want := fmt.Sprintf("%d %x <nil> ", size, sha256.Sum256([]byte(body)))
		for name, use := range map[string]func(*http.Protocols, bool){"1.1": (*http.Protocols).SetHTTP1, "2": (*http.Protocols).SetUnencryptedHTTP2} {
			for _, reader := range []io.Reader{strings.NewReader(body), io.MultiReader(strings.NewReader(body))} {
				r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port+"/", reader)
				if err != nil {
					t.Fatal(err)
				}
				r.Trailer = http.Header{"X-Sum": {"7"}}
				if r.ContentLength > 0 {
					r.Trailer = nil
				}
				a, err := do(clientOf(t, use), r, "Expect: 100-continue")
				chunked := r.ContentLength == 0
				if _, err := caddy.GetModule("http.matchers.url_pattern"); err != nil && size > 64<<10 { // before Caddy 2.11.5
					a.body, chunked = strings.TrimSuffix(a.body, "7"), false // its reverse_proxy may forward no trailers that come later
				}
				if err != nil || a.body != want+map[bool]string{true: "7"}[chunked] {
					t.Errorf("%d bytes over HTTP/%s, %v: got %d %q, %v, want %q", size, name, r.Trailer, a.status, a.body, err, want)
				}
			}
		}
	}
	conn := s.dial()
	defer conn.Close()
	fmt.Fprintf(conn, "POST /begun HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 1<<20, strings.Repeat("x", 64<<10+1))
	select {
	case <-begun:
	case <-time.After(patience):
		t.Error("64 KiB and a byte of a longer body have come, and none comes to the app")
	}
	s.sendAll("POST /begun HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nguess")
	if len(begun) > 0 {
		t.Error("a request comes to the app whose client leaves in its body")
	}
}
