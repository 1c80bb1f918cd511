package caddytest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestErrorRoutesSeeRefusals(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient)+site(`
		rate_limit {
			zone login {
				match /login
				limit 1/1h name hourly
			}
			zone never {
				match /never
				limit 1/1h
				cost 2
			}
		}
		respond hello
		handle_errors 429 403 {
			header X-Code {http.error.status_code}
			respond "{http.rate_limit.exceeded.name}|{http.rate_limit.exceeded.limit}|{http.rate_limit.exceeded.retry_after}" {http.error.status_code}
		}`))
	s.wantPassed(1, 1, "/login")
	a := s.get("/login")
	if want := "login|hourly|" + a.header.Get("Retry-After"); a.body != want || a.header.Get("X-Code") != "429" {
		t.Errorf("body is %q, want %q; X-Code is %q", a.body, want, a.header.Get("X-Code"))
	}
	if a.header.Get("Retry-After") == "" || a.header.Get("RateLimit") == "" {
		t.Errorf("fields are missing: %v", a.header)
	}
	if a := s.get("/never"); a.status != http.StatusForbidden || a.header.Get("X-Code") != "403" || a.body != "never|never|" {
		t.Errorf("what no waiting can mend: status %d, body %q", a.status, a.body)
	}
	s.wantPassed(3, 3, "/elsewhere")
}

func TestErrorRoutesMayChangeTheStatus(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(config("zone z {\nlimit 1/1h\n}"),
		"respond hello", "respond hello\nhandle_errors {\nrespond busy 503\n}", 1))
	s.wantPassed(1, 1, "/")
	if a := s.get("/"); a.status != 503 || a.body != "busy" || a.header.Get("Retry-After") == "" {
		t.Errorf("got %+v", a)
	}
}

func TestRemainingIsAPlaceholder(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient)+site(`
		route {
			rate_limit {
				zone api {
					limit 3/1h
					limit 100/24h
				}
			}
			header X-Left {http.rate_limit.api.remaining}
			header >X-Left-Then {http.rate_limit.api.remaining}
			header X-Other "<{http.rate_limit.other.remaining}>"
			respond hello
		}`))
	for _, want := range []string{"2", "1", "0"} {
		a := s.get("/")
		if a.header.Get("X-Left") != want || a.header.Get("X-Left-Then") != want || a.header.Get("X-Other") == "<"+want+">" {
			t.Errorf("fields are %v, want %s to be left", a.header, want)
		}
	}
}

func TestHeaderStyles(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			w.Header().Add(name, "999")
			w.Header().Add(name, "998")
		}
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(upstream.Close)
	ours := []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
	for style, fields := range map[string][]string{
		"draft": ours[:2], "legacy": ours[2:], "both": ours, "off": nil, "legacy epoch": ours[2:], "both epoch": ours,
	} {
		t.Run(style, func(t *testing.T) {
			s := startCaddy(t, strings.Replace(limitedProxy("5/1h"), "zone z", "headers "+style+"\nzone z", 1),
				"BACKEND="+strings.TrimPrefix(upstream.URL, "http://"))
			for i := range 6 {
				a := s.get("/")
				if allowed := a.isAllowed(t); allowed != (i < 5) {
					t.Errorf("request %d: status is %d", i, a.status)
				}
				if got := a.header.Values("Retry-After"); (len(got) == 1) != (i == 5) {
					t.Errorf("request %d: Retry-After is %q", i, got)
				}
				for _, name := range ours {
					got := a.header.Values(name)
					if slices.Contains(fields, name) {
						if until, err := strconv.ParseInt(got[0], 10, 64); err == nil && name == "X-RateLimit-Reset" && strings.HasSuffix(style, "epoch") {
							got = []string{strconv.FormatInt(until-time.Now().Unix(), 10)}
						}
						checkField(t, name, got, max(4-i, 0))
					} else if i == 5 && len(got) > 0 {
						t.Errorf("%s of a refusal is %q, want none", name, got)
					} else if i < 5 && !slices.Equal(got, []string{"999", "998"}) {
						t.Errorf("%s is %q, want what the upstream says", name, got)
					}
				}
			}
		})
	}
}

// checkField checks the one value that a field has when as many units are left.
func checkField(t *testing.T, name string, got []string, left int) {
	t.Helper()
	if len(got) != 1 {
		t.Errorf("%s is %q, want one value", name, got)
		return
	}
	want := map[string]string{
		"RateLimit-Policy":      `^"z";q=5;w=3600$`,
		"RateLimit":             fmt.Sprintf(`^"z";r=%d;t=3[56]\d\d$`, left),
		"X-RateLimit-Limit":     `^5$`,
		"X-RateLimit-Remaining": fmt.Sprintf(`^%d$`, left),
		"X-RateLimit-Reset":     `^3[56]\d\d$`,
	}[name]
	if !regexp.MustCompile(want).MatchString(got[0]) {
		t.Errorf("%s is %q, want %s", name, got[0], want)
	}
}

// Both handlers are heard of, the tighter first, and a refusal by the second
// names its limit.
func TestTwoHandlersOnOneRequest(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient)+site(`
		route {
			rate_limit {
				zone outer {
					limit 10/1h
				}
			}
			rate_limit {
				zone inner {
					limit 2/1h
				}
			}
			header >X-Left "{http.rate_limit.outer.remaining} {http.rate_limit.inner.remaining}"
			respond hello
		}`))
	a := s.get("/")
	limits, policies := strings.Join(a.header.Values("RateLimit"), ", "), strings.Join(a.header.Values("RateLimit-Policy"), ", ")
	if !regexp.MustCompile(`^"inner";r=1;t=\d+, "outer";r=9;t=\d+$`).MatchString(limits) {
		t.Errorf("RateLimit is %s", limits)
	}
	if policies != `"inner";q=2;w=3600, "outer";q=10;w=3600` {
		t.Errorf("RateLimit-Policy is %s", policies)
	}
	if left := a.header.Get("X-Left"); left != "9 1" {
		t.Errorf("placeholders are %q", left)
	}
	s.wantPassed(1, 1, "/")
	a = s.get("/")
	if a.status != http.StatusTooManyRequests || !strings.HasPrefix(a.header.Get("RateLimit"), `"inner";r=0;`) {
		t.Errorf("refusal: status %d, RateLimit %q", a.status, a.header.Values("RateLimit"))
	}
}

func TestProblemDetailsAreSentIfAskedFor(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone login {\nlimit 1/1h name hourly\n}"))
	const problem = "application/problem+json"
	if a := s.get("/", "Accept: "+problem); a.status != http.StatusOK || a.body != "hello" {
		t.Errorf("an allowed request: %+v", a)
	}
	for _, accept := range []string{problem, "text/html;q=0.5, " + problem, problem + ", */*;q=0.1"} {
		a := s.get("/", "Accept: "+accept)
		var details struct {
			Type     string
			Title    string
			Status   int
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(a.body), &details); err != nil {
			t.Errorf("Accept: %s: body is %q: %v", accept, a.body, err)
		}
		if details.Status != 429 || !strings.HasSuffix(details.Type, "#quota-exceeded") || details.Title == "" ||
			!slices.Equal(details.Violated, []string{"hourly"}) {
			t.Errorf("Accept: %s: problem is %+v", accept, details)
		}
		if a.status != 429 || a.header.Get("Content-Type") != problem || a.header.Get("Retry-After") == "" {
			t.Errorf("Accept: %s: status %d, fields %v", accept, a.status, a.header)
		}
	}
	head := s.send(http.MethodHead, "/", "Accept: "+problem)
	if head.status != 429 || head.body != "" || head.header.Get("Content-Type") != problem {
		t.Errorf("HEAD: %+v", head)
	}
	for _, accept := range []string{"", "*/*", problem + ";q=0"} {
		if a := s.get("/", "Accept: "+accept); a.status != 429 || a.body != "Too Many Requests\n" {
			t.Errorf("Accept: %s: status %d with body %q, want 429 with a line of text", accept, a.status, a.body)
		}
	}
	if a := s.get("/", "Accept: application/json"); a.status != 429 || a.header.Get("Content-Type") != problem || !strings.HasPrefix(a.body, "{") {
		t.Errorf("a client of JSON gets status %d with %q, want 429 with a problem", a.status, a.body)
	}
	if a := s.get("/", "Accept: text/html, "+problem+";q=0.5"); a.status != 429 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("a browser gets status %d, fields %v, want 429 with a page", a.status, a.header)
	}
}

// A refusal does not wait for a body that nobody wants, nor ask for it.
func TestBodyOfRefusedRequestIsNotRead(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := startCaddy(t, limitedProxy("1/1h"), b.env())
	s.wantPassed(1, 1, "/")
	for _, fields := range []string{
		"Content-Length: 104857600\r\nExpect: 100-continue\r\n",
		"Content-Length: 10\r\nExpect: 100-continue\r\n",
		"Content-Length: 104857600\r\n",
		"Transfer-Encoding: chunked\r\n",
		"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
	} {
		conn := s.dial()
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience / 2)) // Caddy itself gives up after a minute
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.HasPrefix(line, "HTTP/1.1 429") {
			t.Errorf("%q: first line is %q: %v", fields, line, err)
		}
	}
	if hits := b.hits.Load(); hits != 1 {
		t.Errorf("%d requests reached the upstream, want 1", hits)
	}
}

// A client that is refused with a short body may go on asking on its connection.
func TestRefusedRequestKeepsItsConnection(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 1/1h\n}"))
	conn := s.dial()
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for i, want := range []int{200, 429, 429, 429} {
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		response, err := http.ReadResponse(answers, nil)
		if err != nil || response.StatusCode != want {
			t.Fatalf("request %d: %v %v, want %d", i, response, err, want)
		}
		if _, err := io.ReadAll(response.Body); err != nil {
			t.Fatal(err)
		}
	}
}

// An error page may have a limit of its own. It is served while that lasts,
// though the request was refused before.
func TestLimitInsideHandleErrors(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(config("zone outer {\nlimit 1/1h\n}"), "respond hello", `respond hello
		handle_errors {
			rate_limit {
				zone page {
					limit 2/1h
				}
			}
			respond "page of {http.rate_limit.exceeded.name}" 503
		}`, 1))
	if a := s.get("/"); a.status != http.StatusOK {
		t.Errorf("the first: %d", a.status)
	}
	for range 2 {
		if a := s.get("/"); a.status != http.StatusServiceUnavailable || a.body != "page of outer" {
			t.Errorf("within the limit of the page: %d %q", a.status, a.body)
		}
	}
	if a := s.get("/"); a.status != http.StatusTooManyRequests || a.body != "Too Many Requests\n" {
		t.Errorf("beyond the limit of the page: %d %q", a.status, a.body)
	}
}

// A client that fails to sign in too often is refused, and not shown the answer that was
// intercepted.
func TestRefusalInsideInterceptHasNoBody(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient)+site(`
		intercept {
			@failed status 401
			handle_response @failed {
				rate_limit {
					zone failed {
						limit 2/1h
					}
				}
				respond "wrong password" 401
			}
		}
		respond "for the upstream's friends" 401`))
	for range 2 {
		if a := s.get("/"); a.status != http.StatusUnauthorized || a.body != "wrong password" {
			t.Errorf("within the limit: %d %q", a.status, a.body)
		}
	}
	if a := s.get("/"); a.status != http.StatusTooManyRequests || a.body != "" || a.header.Get("Retry-After") == "" {
		t.Errorf("beyond the limit: %d %q, %v", a.status, a.body, a.header)
	}
}

// A client that asks for missing pages is limited inside handle_errors. Such
// refusals are no errors, of which Caddy would log each, with the address.
func TestRefusalsInsideHandleErrorsAreAnswered(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient)+site(`
		error 404
		handle_errors 404 {
			rate_limit {
				zone missing {
					limit 2/1h
				}
			}
			respond "nothing here" 404
		}`))
	for range 2 {
		if a := s.get("/"); a.status != http.StatusNotFound || a.body != "nothing here" {
			t.Errorf("within the limit: %d %q", a.status, a.body)
		}
	}
	for range 2 {
		if a := s.get("/"); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
			t.Errorf("beyond the limit: %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
		}
	}
	if logs := s.logs(); strings.Contains(logs, "error handling handler error") {
		t.Errorf("refusals are logged as errors:\n%s", logs)
	}
}
