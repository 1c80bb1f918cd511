package caddytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// checker is an app that checks passwords. It says when an attempt has come, and waits with the
// answers to those that say so.
type checker struct {
	*httptest.Server
	came chan struct{}
	wait chan struct{} // closed to let them go on
}

func newChecker(t *testing.T) *checker {
	c := &checker{came: make(chan struct{}, 1000), wait: make(chan struct{})}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.came <- struct{}{}
		if strings.Contains(string(body), "wait") {
			select {
			case <-c.wait:
			case <-r.Context().Done():
			}
		}
		if strings.Contains(string(body), rightPassword) {
			w.WriteHeader(http.StatusSeeOther)
		} else {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(c.Close)
	t.Cleanup(func() { close(c.wait) })
	return c
}

// await waits for an attempt to come.
func (c *checker) await(t *testing.T) {
	t.Helper()
	select {
	case <-c.came:
	case <-time.After(patience):
		t.Fatal("the attempt doesn't come to the app")
	}
}

// arrived returns how many attempts have come since it was called last.
func (c *checker) arrived() (n int) {
	for {
		select {
		case <-c.came:
			n++
		default:
			return n
		}
	}
}

// attempt tries a password from an address.
func (s *server) attempt(ctx context.Context, from, password string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+s.port+"/login", strings.NewReader(password))
	if err != nil {
		return answer{}, err
	}
	return do(s.client, r, "X-Forwarded-For: "+from)
}

// Of many wrong passwords at once exactly the limit comes to the app, and right ones use up
// nothing. What is held stays used over a kill, and where clients leave before they are answered.
func TestHeldAttempts(t *testing.T) {
	t.Parallel()
	app := newChecker(t)
	s := startCaddy(t, options(patient+trusting)+site(`rate_limit {
		zone login {
			match POST /login
			limit 5/1h
			count status 401 403 hold
		}
	}
	reverse_proxy {$BACKEND}`), "BACKEND="+strings.TrimPrefix(app.URL, "http://"))
	ctx := context.Background()
	wantNext := func(from, password string, want int) {
		t.Helper()
		if a, err := s.attempt(ctx, from, password); err != nil || a.status != want {
			t.Errorf("%s with %s is answered with %d, %v, want %d", from, password, a.status, err, want)
		}
	}

	for range 30 {
		wantNext(person, rightPassword, http.StatusSeeOther)
	}
	app.arrived()
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if _, err := s.attempt(ctx, person, "wrong"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := app.arrived(); n != 5 {
		t.Errorf("%d of 200 wrong passwords came to the app, want 5", n)
	}
	wantNext(person, rightPassword, http.StatusTooManyRequests)
	if t.Failed() {
		t.FailNow()
	}

	for range 3 {
		all.Go(func() { s.attempt(ctx, neighbor, rightPassword+", wait") })
	}
	for range 3 {
		app.await(t)
	}
	s.kill()
	all.Wait()
	s.start()
	wantNext(neighbor, "wrong", http.StatusUnauthorized)
	wantNext(neighbor, "wrong", http.StatusUnauthorized)
	wantNext(neighbor, "wrong", http.StatusTooManyRequests)
	wantNext(person, "wrong", http.StatusTooManyRequests)

	app.arrived()
	for range 5 {
		leaving, leave := context.WithCancel(ctx)
		all.Go(func() { s.attempt(leaving, attacker, "guess, wait") })
		app.await(t)
		leave()
		all.Wait()
	}
	wantNext(attacker, "guess", http.StatusTooManyRequests)
}

// brokenBodies are ways in which a client may break off the body of an attempt, of which the
// password has come already. They return when the connection has ended.
var brokenBodies = map[string]func(s *server, path, from string, decided func()){
	"a bad chunk": func(s *server, path, from string, _ func()) {
		s.sendAll(attemptHead(path, from, "Transfer-Encoding: chunked") + "5\r\nguess\r\nZZ\r\n")
	},
	"a bad trailer": func(s *server, path, from string, _ func()) {
		s.sendAll(attemptHead(path, from, "Transfer-Encoding: chunked") + "5\r\nguess\r\n0\r\nno trailer\r\n\r\n")
	},
	"less than its length": func(s *server, path, from string, _ func()) {
		s.sendAll(attemptHead(path, from, "Content-Length: 99") + "guess")
	},
	"a reset": func(s *server, path, from string, decided func()) {
		conn := s.dial()
		defer conn.Close()
		io.WriteString(conn, attemptHead(path, from, "Transfer-Encoding: chunked")+"5\r\nguess\r\n")
		decided()
		conn.(*net.TCPConn).SetLinger(0)
	},
	"a stream's reset": func(s *server, path, from string, decided func()) {
		body := io.MultiReader(strings.NewReader("guess"), breaking(decided))
		r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+s.port+path, body)
		if err != nil {
			s.t.Error(err)
			return
		}
		if _, err := do(clientOf(s.t, (*http.Protocols).SetUnencryptedHTTP2), r, "X-Forwarded-For: "+from); err == nil {
			s.t.Error("a request that breaks off was answered")
		}
	},
	"more than is taken": func(s *server, path, from string, _ func()) {
		s.sendAll(attemptHead(path, from, "Transfer-Encoding: chunked") + "5\r\nguess\r\n100\r\n" + strings.Repeat("x", 0x100) + "\r\n0\r\n\r\n")
	},
}

func attemptHead(path, from, length string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: " + from + "\r\n" + length + "\r\n\r\n"
}

// sendAll sends bytes and no more, and waits for the end of the answer, if there is one.
func (s *server) sendAll(request string) {
	s.t.Helper()
	conn := s.dial()
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		s.t.Error(err)
	}
	conn.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, conn)
}

// breaking is a reader that waits, and fails.
type breaking func()

func (b breaking) Read([]byte) (int, error) {
	b()
	return 0, errors.New("no more")
}

// Attempts whose body breaks off may have brought the password to the app, and are answered with a
// 502 or a 413: they use up what they hold.
func TestBodiesThatBreakOffAreNotFree(t *testing.T) {
	t.Parallel()
	app := newChecker(t)
	s := startCaddy(t, options(patient+`
	servers {
		protocols h1 h2c
		trusted_proxies static 127.0.0.0/8
	}`)+site(`
	request_body /before {
		max_size 64
	}
	route {
		rate_limit {
			zone login {
				match POST /login /buffered /before /after
				limit 3/1h
				count status 401 hold
			}
		}
		request_body /after {
			max_size 64
		}
		reverse_proxy /buffered {$BACKEND} {
			request_buffers 4KiB
		}
		reverse_proxy {$BACKEND}
	}`), "BACKEND="+strings.TrimPrefix(app.URL, "http://"))
	clients, broken := 0, 0
	for name, breakOff := range brokenBodies {
		for _, path := range []string{"/login", "/buffered", "/before", "/after"} {
			if bounded := path == "/before" || path == "/after"; bounded != (name == "more than is taken") {
				continue
			}
			clients++
			from := fmt.Sprintf("192.0.2.%d", clients)
			for range 3 {
				broken++
				breakOff(s, path, from, func() {
					waitFor(t, name+": the decision", func() bool { return s.sum("caddy_rate_limit_requests_total", `zone="login"`) >= broken+clients-1 })
				})
				waitFor(t, name+": the end of the attempt", func() bool {
					return s.sum("caddy_rate_limit_settled_requests_total", `zone="login"`) >= broken
				})
			}
			if a, err := s.attempt(context.Background(), from, "guess"); err != nil || a.status != http.StatusTooManyRequests {
				t.Errorf("%s at %s: after three of them the next is answered with %d, %v, want 429", name, path, a.status, err)
			}
		}
	}
}

// sum adds up the series of a metric that have some label.
func (s *server) sum(metric, label string) (sum int) {
	s.t.Helper()
	text, err := s.metrics()
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(series, metric+"{") && strings.Contains(series, label) {
			var n int
			fmt.Sscan(value, &n)
			sum += n
		}
	}
	return sum
}

// replacing are handlers that answer with another status than that of the app, or of the handler
// that found the password to be wrong.
var replacing = map[string]string{
	"intercept, another status":     "intercept {\n@wrong status 401\nreplace_status @wrong 200\n}\nreverse_proxy {$BACKEND}",
	"intercept, another answer":     "intercept {\n@wrong status 401\nhandle_response @wrong {\nrespond 200\n}\n}\nreverse_proxy {$BACKEND}",
	"intercept, of another handler": "intercept {\nreplace_status 200\n}\nrespond 401",
	"reverse_proxy, another status": "reverse_proxy {$BACKEND} {\n@wrong status 401\nreplace_status @wrong 200\n}",
	"reverse_proxy, another answer": "reverse_proxy {$BACKEND} {\n@wrong status 401\nhandle_response @wrong {\nrespond 200\n}\n}",
	"reverse_proxy, a redirect":     "reverse_proxy {$BACKEND} {\n@wrong status 401\nhandle_response @wrong {\nredir * /login\n}\n}",
	"reverse_proxy, an error":       "reverse_proxy {$BACKEND} {\n@wrong status 401\nhandle_response @wrong {\nerror 404\n}\n}",
	"reverse_proxy, a copy":         "reverse_proxy {$BACKEND} {\n@wrong status 401\nhandle_response @wrong {\ncopy_response 200\n}\n}",
	"both":                          "intercept {\n@wrong status 403\nreplace_status @wrong 200\n}\nreverse_proxy {$BACKEND} {\n@wrong status 401\nreplace_status @wrong 403\n}",
}

// Whatever handlers make of a wrong password's 401, it counts, and a right one doesn't.
func TestReplacedStatusesCount(t *testing.T) {
	t.Parallel()
	app := newChecker(t)
	var sites, names []string
	for name, handlers := range replacing {
		for _, hold := range []string{"", "hold"} {
			names = append(names, name+" "+hold)
			sites = append(sites, site(`route {
				rate_limit {
					zone login {
						match POST /login
						limit 3/1h
						count status 401 `+hold+`
					}
				}
				`+handlers+`
			}`))
		}
	}
	s, at := startSites(t, patient+trusting, sites, "BACKEND="+strings.TrimPrefix(app.URL, "http://"))
	for i, name := range names {
		at(i)
		if strings.Contains(sites[i], "BACKEND") {
			for range 5 {
				if a, err := s.attempt(context.Background(), person, rightPassword); err != nil || a.status != http.StatusSeeOther {
					t.Errorf("%s: a right password is answered with %d, %v", name, a.status, err)
				}
			}
		}
		passed := 0
		for range 8 {
			if a, err := s.attempt(context.Background(), person, "guess"); err == nil && a.status != http.StatusTooManyRequests {
				passed++
			}
		}
		if passed != 3 {
			t.Errorf("%s: %d of 8 wrong passwords passed a limit of 3", name, passed)
		}
	}
}

// The 200 with which forward_auth lets a request go on is no answer to it.
func TestAnAllowedRequestIsNoAnswer(t *testing.T) {
	t.Parallel()
	allowing := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(allowing.Close)
	s := startCaddy(t, options(patient+trusting)+site(`route {
		rate_limit {
			zone found {
				limit 3/1h
				count status 2xx
			}
		}
		forward_auth {$BACKEND} {
			uri /
		}
		respond 404
	}`), "BACKEND="+strings.TrimPrefix(allowing.URL, "http://"))
	for range 6 {
		if a := s.get("/"); a.status != http.StatusNotFound {
			t.Fatalf("what isn't found is answered with %d", a.status)
		}
	}
}
