package load

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
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

// run sends a load over connections to a server of their own.
func run(t *testing.T, l Load, connections int, delay func(int) time.Duration) Report {
	t.Helper()
	dial := func() (net.Conn, error) {
		client, server := net.Pipe()
		go serve(server, delay)
		return client, nil
	}
	clients, closeAll, err := HTTP(connections, dial, func(buffer []byte, number int64) []byte {
		return fmt.Appendf(buffer, "GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n", number)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll()
	report, err := Run(t.Context(), l, clients)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// want checks the number of answers, all of which must have the status 200, and the median and
// longest time.
func want(t *testing.T, r Report, answers int64, median, longest time.Duration) {
	t.Helper()
	took := &r.Took[OK]
	if took.Count() != answers || r.Count(Other) != 0 {
		t.Errorf("got %d answers and %d others, want %d and none", took.Count(), r.Count(Other), answers)
	}
	var wanted stats.Histogram
	wanted.Add(median)
	wanted.Add(longest)
	if took.Percentile(.5) != wanted.Percentile(.5) || took.Percentile(1) != wanted.Percentile(1) {
		t.Errorf("answers took %v, at most %v, want %v and %v", took.Percentile(.5), took.Percentile(1), median, longest)
	}
}

func TestRequestsThatWaitForAStalledServerAreMeasuredFromWhenTheyWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // due every 10 ms, and answered after 100, 90 … 10, 0 … ms
		want(t, run(t, Load{Rate: 100, Duration: 190 * time.Millisecond}, 1, func(number int) time.Duration {
			if number == 0 {
				return 100 * time.Millisecond
			}
			return 0
		}), 19, 10*time.Millisecond, 100*time.Millisecond)
	})
}

func TestRequestsDontWaitForEachOtherOnOtherConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const answer = 15 * time.Millisecond
		want(t, run(t, Load{Rate: 100, Duration: time.Second}, 2, func(int) time.Duration { return answer }), 100, answer, answer)
	})
}

func TestWithoutARateEachRequestFollowsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const answer = 10 * time.Millisecond
		want(t, run(t, Load{Duration: 100 * time.Millisecond}, 3, func(int) time.Duration { return answer }), 30, answer, answer)
	})
}

func TestALoadOfSoManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const answer = 10 * time.Millisecond
		want(t, run(t, Load{Requests: 7}, 3, func(int) time.Duration { return answer }), 7, answer, answer)
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
