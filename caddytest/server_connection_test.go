package caddytest

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A client can't remove the mark of a request over a limit by naming it in Connection, as a field of its
// connection only, nor add a field that CGI takes for it. Its API key reaches the upstream as it counted.
func TestClientsCannotRemoveFields(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(config("zone z {\nlimit 1/1h\non_exceeded pass X-Over-Limit\n}"), "respond ", `reverse_proxy 127.0.0.1:{$OTHER}
	}
	http://127.0.0.1:{$OTHER} {
		respond "over={header.X-Over-Limit} twin={header.X_Over_Limit} key={header.X-Api-Key} connection={header.Connection}" 200
	}
	http://127.0.0.1:1 {
		respond `, 1))
	for i, connection := range []string{"close", "X-Over-Limit", "close, X-Over-Limit", "x-over-limit,close", "X-Over-Limit\r\nConnection: close", "X-Api-Key, X-Over-Limit"} {
		conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nX-Over-Limit: forged\r\nX_Over_Limit: forged\r\nX-Api-Key: k\r\nConnection: %s\r\n\r\n", s.port, connection)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		var body [200]byte
		n, _ := answer.Body.Read(body[:])
		conn.Close()
		want := "over=z twin= key=k"
		if i == 0 {
			want = "over= twin= key=k"
		}
		if text := string(body[:n]); !strings.HasPrefix(text, want) {
			t.Errorf("Connection %q: the upstream gets %q, want %q", connection, text, want)
		}
	}
}
