package accesslog

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"
)

// parsed parses a line in a format.
func parsed(t *testing.T, format, line string) (*Record, error) {
	t.Helper()
	p, err := NewParser(format)
	if err != nil {
		t.Fatal(err)
	}
	r := new(Record)
	return r, p.parse([]byte(line+"\n"), r)
}

const caddyLine = `{"level":"info","ts":1795168800.123456,"logger":"http.log.access.log0","msg":"handled request",` +
	`"request":{"remote_ip":"10.0.0.1","remote_port":"50422","client_ip":"2001:db8::1","proto":"HTTP/2.0","method":"POST","host":"example.com","uri":"/login?a=\u00e4",` +
	`"headers":{"User-Agent":["curl \"8\""],"Cookie":["REDACTED"],"X-Two":["1","2"]},"tls":{"resumed":false,"version":772,"server_name":"example.com"}},` +
	`"bytes_read":7,"user_id":"ann","duration":0.25,"size":9,"status":429,"resp_headers":{},"rate_limit":{"zone":"login","limit":"login","outcome":"over_limit","reference":"x"}}`

func TestCaddy(t *testing.T) {
	r, err := parsed(t, "", caddyLine)
	if err != nil {
		t.Fatal(err)
	}
	logged := time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC).UnixNano()
	if r.Logged != logged || r.Arrived != logged-250e6 || r.Rounded {
		t.Errorf("logged at %d, arrived at %d, want %d", r.Logged, r.Arrived, logged)
	}
	got := fmt.Sprint(r.RemoteIP, " ", r.RemotePort, " ", r.ClientIP, " ", r.User, " ", r.Method, " ", r.Host, " ", r.URI, " ", r.Proto, " ", r.TLS, r.SchemeKnown, " ", r.Status, " ", r.Size, " ", r.Read)
	if want := "10.0.0.1 50422 2001:db8::1 ann POST example.com /login?a=ä HTTP/2.0 true true 429 9 7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if r.Value("User-Agent") != `curl "8"` || len(r.Header) != 3 || r.Header[2].Value != "2" {
		t.Errorf("header is %v", r.Header)
	}
	if !r.Hides("Cookie") || r.Hides("Authorization") || r.Refused != (Refusal{"login", "login", "over_limit"}) {
		t.Errorf("hidden are %v, refused is %v", r.Hidden, r.Refused)
	}
}

// Times of Caddy's encoders are read, in all named formats and in Go layouts.
func TestCaddyTimes(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 123456789, time.UTC)
	for ts, want := range map[string]time.Duration{ // precision
		`1795168800.1234567`:               time.Microsecond,
		`1.7951688001234567e9`:             time.Microsecond,
		`1795168800`:                       time.Second,
		`1795168800123.456789`:             1,
		`1795168800123`:                    time.Millisecond,
		`1795168800123456`:                 time.Microsecond,
		`1795168800123456789`:              1,
		`"2026-11-20T10:00:00.123Z"`:       time.Millisecond,
		`"2026-11-20T11:00:00.123+0100"`:   time.Millisecond,
		`"2026-11-20T11:00:00+01:00"`:      time.Second,
		`"2026-11-20T10:00:00.123456789Z"`: 1,
		`"2026/11/20 10:00:00"`:            time.Second,
		`"2026/11/20 10:00:00.123"`:        time.Millisecond,
		`"2026/11/20 10:00:00.123456789"`:  1,
		`"20/Nov/2026:11:00:00 +0100"`:     time.Second,
		`"2026-11-20 10:00:00"`:            time.Second,
		`"Fri, 20 Nov 2026 10:00:00 GMT"`:  time.Second,
	} {
		r, err := parsed(t, "caddy", strings.Replace(strings.Replace(caddyLine, "1795168800.123456", ts, 1), "0.25", "0", 1))
		if err != nil {
			t.Errorf("%s: %v", ts, err)
			continue
		}
		if off := at.Truncate(want).Sub(time.Unix(0, r.Logged)); off.Abs() >= want && off != 0 {
			t.Errorf("%s: got %v", ts, time.Unix(0, r.Logged).UTC())
		}
		if r.Rounded != (want == time.Second) {
			t.Errorf("%s: rounded is %v", ts, r.Rounded)
		}
	}
	for _, ts := range []string{`""`, `"soon"`, `0`, `-1`, `1e400`, `99999999999999999999`, `null`, `{}`} {
		if r, err := parsed(t, "caddy", strings.Replace(caddyLine, "1795168800.123456", ts, 1)); err == nil {
			t.Errorf("%s: got %v", ts, time.Unix(0, r.Logged))
		}
	}
}

func TestCaddyDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0.25": 250 * time.Millisecond, "2": 2 * time.Second, "1e-3": time.Millisecond, "250000000": 250 * time.Millisecond,
		`"250ms"`: 250 * time.Millisecond, "-1": 0, "1e300": 24 * time.Hour, "null": 0,
	} {
		r, err := parsed(t, "caddy", strings.Replace(caddyLine, "0.25", text, 1))
		if err != nil || r.Duration != int64(want) {
			t.Errorf("%s: got %v, %v", text, time.Duration(r.Duration), err)
		}
	}
}

// The prefixes of journald, Docker and Caddy's console format before the JSON are ignored.
func TestCaddyBehindOthers(t *testing.T) {
	withoutTime := strings.Replace(caddyLine, `"ts":1795168800.123456,`, "", 1)
	for _, line := range []string{
		"Nov 20 10:00:00 host caddy[123]: " + caddyLine,
		"2026/11/20 10:00:00.123\tINFO\thttp.log.access.log0\thandled request\t" + withoutTime,
	} {
		if r, err := parsed(t, "", line); err != nil || r.Logged/1e6 != 1795168800123 {
			t.Errorf("%s: got %d, %v", line, r.Logged, err)
		}
	}
}

// Lines of Caddy's other loggers are not requests, even if they quote one.
func TestOtherLines(t *testing.T) {
	for _, line := range []string{
		`{"level":"info","ts":1795168800.1,"msg":"server running"}`,
		strings.Replace(caddyLine, "http.log.access.log0", "http.log.error", 1),
		strings.Replace(caddyLine, "http.log.access.log0", "http.handlers.reverse_proxy", 1),
	} {
		if _, err := parsed(t, "", line); err != errOther {
			t.Errorf("%s: got %v", line, err)
		}
	}
	for _, line := range []string{"", "hello", "{", `{"request":{}}`, `{"a":1}`, caddyLine[:len(caddyLine)-1]} {
		if _, err := parsed(t, "", line); err == nil || err == errOther {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

// A reused record keeps nothing of the previous one, and texts taken from that one stay unchanged.
func TestRecordsAreReused(t *testing.T) {
	p, err := NewParser("")
	if err != nil {
		t.Fatal(err)
	}
	r := new(Record)
	if err := p.parse([]byte(caddyLine), r); err != nil {
		t.Fatal(err)
	}
	uri := r.URI
	other := `{"ts":1795168801,"request":{"client_ip":"10.0.0.2","method":"GET","uri":"/another"},"status":200}`
	if err := p.parse([]byte(other), r); err != nil {
		t.Fatal(err)
	}
	if uri != "/login?a=ä" || len(r.Header) != 0 || len(r.Hidden) != 0 || r.Refused.Zone != "" || r.User != "" || r.TLS || r.RemoteIP != "10.0.0.2" {
		t.Errorf("uri is %q, record %+v", uri, r)
	}
}

func FuzzParser(f *testing.F) {
	f.Add(caddyLine)
	f.Add(`{"ClientHost":"10.0.0.1","RequestMethod":"GET","RequestPath":"/","StartUTC":"2026-11-20T10:00:00.1Z","DownstreamStatus":200,"request_User-Agent":"x"}`)
	f.Add(`10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "a\"b\x22"`)
	f.Add(`{"ts":1e9,"request":{"headers":{"A":["\ud83d"]}}}`)
	f.Fuzz(func(t *testing.T, line string) {
		for _, format := range []string{"", `{"t":"$msec","r":"$request","a":"$remote_addr","h":"$http_user_agent"}`} {
			p, err := NewParser(format)
			if err != nil {
				t.Fatal(err)
			}
			r := new(Record)
			for range 2 {
				if p.parse([]byte(line), r) != nil {
					continue
				}
				if r.Logged <= 0 || r.Arrived < r.Logged-maxDuration || r.Method == "" || r.URI == "" || len(r.Header) > maxFields {
					t.Errorf("got %+v", r)
				}
			}
		}
	})
}

// All bytes of a log are read to the end, in lines of bounded length.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n"), 1)
	f.Add([]byte("x"), maxLine)
	f.Fuzz(func(t *testing.T, data []byte, times int) {
		if times < 1 || len(data)*times > 3*maxLine {
			return
		}
		file := &File{lines: bufio.NewReaderSize(strings.NewReader(strings.Repeat(string(data), times)), 16)}
		for {
			line, err := file.line()
			if len(line) > maxLine {
				t.Errorf("a line has %d bytes", len(line))
			}
			if err != nil && err != errLong {
				return
			}
		}
	})
}
