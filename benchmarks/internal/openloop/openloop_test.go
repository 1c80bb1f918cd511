package openloop

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// serve answers the requests of a connection, each after the time that delay returns.
func serve(conn net.Conn, delay func(number int) time.Duration) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for number := 0; ; number++ {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		time.Sleep(delay(number))
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	}
}

// load returns a load for a server of its own.
func load(delay func(int) time.Duration) Load {
	return Load{
		Dial: func() (net.Conn, error) {
			client, server := net.Pipe()
			go serve(server, delay)
			return client, nil
		},
		Append: func(buffer []byte, number int64) []byte {
			return fmt.Appendf(buffer, "GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n", number)
		},
	}
}

func TestRequestsThatWaitForAStalledServerAreMeasuredFromWhenTheyWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load(func(number int) time.Duration {
			if number == 0 {
				return 100 * time.Millisecond
			}
			return 0
		})
		l.Connections, l.Rate, l.Duration = 1, 100, 200*time.Millisecond
		result, err := Run(t.Context(), l)
		if err != nil || len(result.Samples) != 20 {
			t.Fatalf("got %d samples, %v", len(result.Samples), err)
		}
		for i, s := range result.Samples {
			due := time.Duration(i) * 10 * time.Millisecond
			if want := (Sample{due, max(0, 100*time.Millisecond-due), 200}); s != want {
				t.Errorf("request %d: got %v, want %v", i, s, want)
			}
		}
	})
}

func TestRequestsDontWaitForEachOtherOnOtherConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load(func(int) time.Duration { return 15 * time.Millisecond })
		l.Connections, l.Rate, l.Duration = 2, 100, time.Second
		result, err := Run(t.Context(), l)
		if err != nil || len(result.Samples) != 100 {
			t.Fatalf("got %d samples, %v", len(result.Samples), err)
		}
		if longest := slices.MaxFunc(result.Samples, func(a, b Sample) int { return int(a.Took - b.Took) }); longest.Took != 15*time.Millisecond {
			t.Errorf("the longest took %v", longest.Took)
		}
	})
}

func TestWithoutARateEachRequestFollowsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load(func(int) time.Duration { return 10 * time.Millisecond })
		l.Connections, l.Duration = 3, 100*time.Millisecond
		if result, err := Run(t.Context(), l); err != nil || len(result.Samples) != 30 {
			t.Errorf("got %d samples, %v", len(result.Samples), err)
		}
	})
}

func TestAnswersFollowEachOther(t *testing.T) {
	r := bufio.NewReader(strings.NewReader("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 3\r\n\r\nno\n" +
		"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n" + "SSH-2.0\r\n"))
	for _, want := range []int{429, 200} {
		if status, err := readAnswer(r); err != nil || status != want {
			t.Errorf("got %d, %v, want %d", status, err, want)
		}
	}
	if _, err := readAnswer(r); err == nil {
		t.Error("got no error for what isn't HTTP")
	}
}
