package caddytest

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// The dashboard is for users, below whatever path it stands, and for nobody else.
func TestDashboardIsForUsers(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"handle_path": "handle_path /limits/* {\n" + basicAuth + "rate_limit_dashboard\n}\n",
		"handle":      "handle /limits/* {\nrate_limit_dashboard\n" + basicAuth + "}\n",
		"route":       "route /limits/* {\n" + basicAuth + "rate_limit_dashboard\n}\n",
		"directive":   "rate_limit_dashboard /limits/*\n" + basicAuth,
		"cut":         "handle_path /limits* {\n" + basicAuth + "rate_limit_dashboard\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, options("")+site(body+"rate_limit {\nzone all {\nlimit 1000/1h\n}\n}\n"+"respond hello\n"))
			for _, path := range []string{"/limits/", "/limits/clients", "/limits/style.css", "/limits/events"} {
				if a := s.get(path); a.status != http.StatusUnauthorized {
					t.Errorf("%s without a password: got %d, want 401", path, a.status)
				}
			}
			a := s.get("/limits/", alice)
			if a.status != http.StatusOK || !strings.Contains(a.body, "<h1>Now</h1>") || !strings.Contains(a.body, "alice") || !strings.Contains(a.body, "reads only") {
				t.Errorf("alice is answered with %d:\n%s", a.status, a.body)
			}
			if a := s.get("/limits/health", alice); a.status != http.StatusOK || !strings.Contains(a.body, "sqlite") {
				t.Errorf("the health is answered with %d:\n%s", a.status, a.body)
			}
			if name == "cut" {
				if a := s.get("/limits", alice); a.status != http.StatusPermanentRedirect || a.header.Get("Location") != "./limits/" {
					t.Errorf("without the slash: got %d and Location %q", a.status, a.header.Get("Location"))
				}
			}
		})
	}
}

// Requests of the dashboard aren't among those that it shows, unless they were refused.
func TestDashboardDoesNotShowItself(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("")+site("rate_limit {\nzone all {\nlimit 4/1h\n}\n}\nhandle_path /limits/* {\n"+basicAuth+"rate_limit_dashboard\n}\nrespond hello\n"))
	s.get("/page")
	s.get("/limits/health", alice)
	s.get("/limits/clients") // without a password
	if body := s.get("/limits/requests", alice).body; strings.Contains(body, "/limits/health") || !strings.Contains(body, "/limits/clients") || !strings.Contains(body, "/page") {
		t.Errorf("the dashboard shows\n%s", body)
	}
	s.get("/limits/bans", alice) // refused
	if seen, err := s.operator().Refusals(t.Context(), operator.RefusalsQuery{}); err != nil || seen.Sampled != 1 || seen.LetIn != 2 {
		t.Errorf("got %+v, %v, want one refusal, and two that were let in", seen, err)
	}
}

// Without a user only a matcher lets somebody in, and a config that lets nobody in is warned of.
func TestDashboardWithoutUsers(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(trusting)+site("rate_limit_dashboard /limits/* {\nwritable\nallow 192.0.2.7\n}\nrate_limit_dashboard /shut/*\nrespond hello\n"))
	if a := s.get("/limits/", "X-Forwarded-For: 192.0.2.7"); a.status != http.StatusOK || strings.Contains(a.body, "reads only") {
		t.Errorf("who is allowed is answered with %d", a.status)
	}
	for _, path := range []string{"/limits/", "/limits/clients", "/shut/"} {
		if a := s.get(path, "X-Forwarded-For: 192.0.2.8"); a.status != http.StatusForbidden || strings.Contains(a.body, "<h1") {
			t.Errorf("%s: got %d, want 403", path, a.status)
		}
	}
	if n := strings.Count(s.logs(), "everybody is answered with 403"); n != 1 {
		t.Errorf("%d warnings that nobody gets in, want 1 for /shut/*:\n%s", n, s.logs())
	}
}

// A page of another site that has pointed its name here has the address of its visitor, who may see
// the dashboard.
func TestDashboardAgainstRebinding(t *testing.T) {
	t.Parallel()
	const allowed = "rate_limit_dashboard /limits/* {\nallow client_ip 127.0.0.1\n}\n"
	s := startCaddy(t, options("")+
		"http://dash.lan:{$PORT}, http://*.dash.lan:{$PORT} {\n"+allowed+"}\n"+
		site("@inner host inner.lan\nhandle @inner {\n"+allowed+"}\n"+
			"handle /users/* {\n"+basicAuth+"rate_limit_dashboard {\nallow client_ip 127.0.0.1\n}\n}\n"+
			"handle {\nroute {\nrate_limit_dashboard /named/* {\nallow {\nclient_ip 127.0.0.1\nhost named.lan\n}\n}\n"+allowed+"}\n}\n"))
	for _, tt := range []struct {
		path, host string
		status     int
	}{
		{"/limits/", "127.0.0.1", 200}, {"/limits/", "[::1]:80", 200}, {"/limits/", "localhost", 200}, {"/limits/", "LOCALHOST.:8080", 200},
		{"/limits/", "dash.lan", 200}, {"/limits/", "a.dash.lan", 200}, {"/limits/", "Inner.lan:8080", 200}, {"/named/", "named.lan", 200},
		{"/limits/", "evil.example", 421}, {"/limits/", "dash.lan.evil.example", 421}, {"/limits/", "127.0.0.1.evil.example", 421},
		{"/limits/", "nas", 421}, {"/named/", "evil.example", 403},
		{"/users/", "evil.example", 401},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+s.port+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		if a, err := do(s.client, r); err != nil || a.status != tt.status {
			t.Errorf("%s at %s: got %d, %v, want %d", tt.path, tt.host, a.status, err, tt.status)
		}
	}
}

// Behind a proxy that the server doesn't trust all visitors have the proxy's address: nobody comes in by it, and no
// exemption is for it, if the proxy says that the visitor is from elsewhere.
func TestAddressOfAProxyFavorsNobody(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("")+site("rate_limit {\nexempt client_ip private_ranges 127.0.0.0/8\nzone a {\nmatch not path /limits/*\nlimit 1/1h\n}\n}\n"+
		"handle_path /limits/* {\nrate_limit_dashboard {\nwritable\nallow client_ip private_ranges 127.0.0.0/8\n}\n}\nrespond hello"))
	for _, c := range []struct {
		fields []string
		inside bool
	}{
		{nil, true},
		{[]string{"X-Forwarded-For: 192.168.1.7"}, true},
		{[]string{"X-Forwarded-For: 100.64.0.9"}, true},
		{[]string{"X-Forwarded-For: 8.8.8.8"}, false},
		{[]string{"X-Forwarded-For: 192.168.1.7, 2001:4860:4860::8888"}, false},
		{[]string{"X-Real-IP: 8.8.8.8"}, false},
		{[]string{"Cf-Connecting-Ip: 8.8.8.8"}, false},
	} {
		want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[c.inside]
		if a := s.get("/limits/", c.fields...); a.status != want {
			t.Errorf("with %q: got %d from the dashboard, want %d: %s", c.fields, a.status, want, a.body)
		}
		s.get("/", c.fields...) // which uses up the limit of whoever isn't exempt
		if a := s.get("/", c.fields...); (a.status == http.StatusOK) != c.inside {
			t.Errorf("with %q: got %d, want an exemption: %v", c.fields, a.status, c.inside)
		}
	}
}

// A header field that clients can write opens the dashboard to everybody.
func TestDashboardBehindFieldsThatClientsCanWrite(t *testing.T) {
	noData(t)
	const auth = "forward_auth 127.0.0.1:9091 {\nuri /\ncopy_headers Remote-User\n}\n"
	in := func(body string) string { return "http://example.com {\n" + body + "\n}\n" }
	dashboard := func(allow string) string { return "rate_limit_dashboard {\nallow " + allow + "\n}\n" }
	for _, tt := range []struct{ input, says string }{
		{in(dashboard("header Remote-User *")), "nothing before this handler sets or removes it"},
		{in(dashboard("header remote-user alice")), "nothing before this handler sets or removes it"},
		{in(dashboard("header_regexp Remote-User ^a")), "nothing before this handler sets or removes it"},
		{in(dashboard("expression `{header.Remote-User} == \"alice\"`")), "nothing before this handler sets or removes it"},
		{in(dashboard("header X-Whatever *")), "nothing before this handler sets or removes it"},
		{in(dashboard("{\nheader Remote-User *\nclient_ip 192.0.2.0/24\n}")), "nothing before this handler sets or removes it"},
		{in("route {\n" + dashboard("header Remote-User *") + auth + "}"), "is set by a handler that runs later"},
		{in(dashboard("header Remote-User *") + "request_header -Remote-User"), "is what the client has sent"},
		{in(auth + dashboard("header Remote-User *")), ""},
		{in("route {\nrequest_header -Remote-User\n" + dashboard("header Remote-User *") + "}"), ""},
		{in(dashboard("{\nheader Remote-User *\nremote_ip 192.0.2.1\n}")), ""},
		{in(dashboard("header X-Secret 1f0c9a2b7d4e6f80")), ""},
		{in(dashboard("client_ip 192.0.2.0/24")), ""},
	} {
		_, err := load(t, tt.input)
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), "rate_limit_dashboard: allow: {http.request.header.") || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "at Caddyfile:")) {
			t.Errorf("%s: %v, want %q", tt.input, err, tt.says)
		}
	}
}

// With the config of docs/dashboard.md, whoever has used up the site's limit still gets into the dashboard, and
// guesses of its password are limited.
func TestSiteLimitDoesNotShutTheDashboard(t *testing.T) {
	t.Parallel()
	_, example, _ := strings.Cut(readSample(t, "../docs/dashboard.md"), "```caddyfile\nexample.com {\n")
	example, _, _ = strings.Cut(example, "\n}\n```")
	example = regexp.MustCompile(`maria \S+`).ReplaceAllLiteralString(strings.Replace(example, "reverse_proxy 127.0.0.1:3000", "respond hello", 1), strings.TrimSpace(strings.Split(basicAuth, "\n")[1]))
	s := startCaddy(t, options(trusting)+site(example))
	const from = "X-Forwarded-For: 192.0.2.1"
	s.wantPassed(100, 101, "/", from)
	if a := s.get("/limits/", from, alice); a.status != http.StatusOK || !strings.Contains(a.body, "<h1>Now</h1>") {
		t.Errorf("the operator gets %d", a.status)
	}
	guesses := make(map[int]int)
	for range 110 {
		guesses[s.get("/limits/", "X-Forwarded-For: 192.0.2.2").status]++
	}
	if guesses[http.StatusUnauthorized] != 100 || guesses[http.StatusTooManyRequests] != 10 {
		t.Errorf("guesses of the password are answered with %v", guesses)
	}
}
