package caddytest

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// basicAuth lets alice and bob in, whose passwords are hashed as cheaply as can be.
const basicAuth = `basic_auth {
	alice $2a$04$uGq7XpozG4plAp1bJVLHO.XaSAaqdOH7ANIjNRXOTpXIqsjsVe9Em
	bob $2a$04$H8ZfvbiegjP1mBcRqJaFL.Hqcka5BMxDq0txuuNR0XKt2f3ut/hj.
}
`

var (
	alice    = signedIn("alice", "a secret")
	bob      = signedIn("bob", "another")
	mallory  = signedIn("alice", "a guess")
	perUser  = "zone user {\nper key {http.auth.user.id}\nlimit 3/1h\n}\n"
	attempts = "rate_limit {\nzone attempts {\nlimit 20/1h\n}\n}\n"
)

func signedIn(name, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// Users have limits of their own, wherever they come from, in all ways to write that. Wrong
// passwords are limited by what comes before.
func TestLimitsPerUser(t *testing.T) {
	t.Parallel()
	respond := "respond \"{http.rate_limit.user.remaining} {http.rate_limit.attempts.remaining}\"\n"
	for name, body := range map[string]string{
		"directive": "rate_limit_user {\n" + perUser + "}\n" + respond + basicAuth + attempts,
		"handle":    "handle {\nrate_limit_user {\n" + perUser + "}\n" + basicAuth + attempts + respond + "}\n",
		"route":     "route {\n" + attempts + basicAuth + "rate_limit {\n" + perUser + "}\n" + respond + "}\n",
		"tier":      "rate_limit_user {\nzone user {\nper key {http.auth.user.id}\ntier {http.auth.user.id}\n}\n}\n" + respond + basicAuth + attempts,
	} {
		t.Run(name, func(t *testing.T) {
			global := "rate_limit {\nstore_timeout 1m\ntier alice {\nlimit 3/1h\n}\ntier bob {\nlimit 3/1h\n}\n}\n"
			s := startCaddy(t, options(global+trusting)+site(body))
			a := s.get("/", from(1), alice)
			if fields := a.header.Get("Ratelimit"); a.body != "2 19" || !strings.Contains(fields, `"user";r=2`) || !strings.Contains(fields, `"attempts";r=19`) {
				t.Errorf("alice is answered with %d, %q, %s", a.status, a.body, fields)
			}
			s.wantPassed(1, 1, "/", from(1), alice)
			s.wantPassed(1, 2, "/", from(2), alice)
			s.wantPassed(3, 4, "/", from(1), bob)
			wrong := 0
			for range 30 {
				if s.get("/", from(3), mallory).status == http.StatusUnauthorized {
					wrong++
				}
			}
			if wrong != 20 {
				t.Errorf("%d guesses of a password are answered, want 20", wrong)
			}
			s.wantPassed(0, 1, "/", from(3), bob)
		})
	}
}

// authServer says who a token belongs to, as the servers that forward_auth asks do.
func authServer(t *testing.T) string {
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch token := r.Header.Get("X-Token"); token {
		case "":
			w.WriteHeader(http.StatusUnauthorized)
		case "nameless":
		default:
			w.Header().Set("Remote-User", token)
		}
		io.WriteString(w, "as asked")
	}))
	t.Cleanup(auth.Close)
	return "forward_auth " + auth.Listener.Addr().String() + " {\nuri /\ncopy_headers Remote-User\n}\n"
}

// Behind forward_auth the field is what the authentication server says, whatever the client
// has sent: also if it says nothing.
func TestLimitsPerUserOfAnAuthServer(t *testing.T) {
	t.Parallel()
	auth := authServer(t)
	zone := "zone user {\nper key {http.request.header.Remote-User}\nlimit 3/1h\n}\n"
	for name, body := range map[string]string{
		"directive": "rate_limit_user {\n" + zone + "}\nrespond {http.request.header.Remote-User}\n" + auth,
		"route":     "route {\n" + auth + "rate_limit {\n" + zone + "}\nrespond {http.request.header.Remote-User}\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, options(patient+trusting)+site(body))
			for i := range 3 {
				a := s.get("/", from(i), "X-Token: alice", fmt.Sprintf("Remote-User: invented-%d", i))
				if a.status != http.StatusOK || a.body != "alice" {
					t.Errorf("alice is answered with %d, %q", a.status, a.body)
				}
			}
			s.wantPassed(0, 1, "/", from(4), "X-Token: alice", "Remote-User: invented")
			s.wantPassed(3, 4, "/", from(1), "X-Token: bob")
			for i := range 3 {
				s.wantPassed(1, 1, "/", from(5), "X-Token: nameless", fmt.Sprintf("Remote-User: invented-%d", i))
			}
			s.wantPassed(0, 1, "/", from(5), "X-Token: nameless", "Remote-User: invented")
			if a := s.get("/", from(1)); a.status != http.StatusUnauthorized {
				t.Errorf("who has no token gets %d", a.status)
			}
		})
	}
}

// What a config shows of handlers that run too late is an error or a warning when it is
// loaded, with what to write.
func TestOrderOfHandlers(t *testing.T) {
	const (
		late     = "is set by a handler that runs later"
		never    = "nothing before this handler authenticates users"
		client   = "so clients choose who they are"
		noAnswer = "no handler before this one has asked for an answer"
		ok       = ""
	)
	limit := func(option string) string { return "rate_limit {\nzone z {\n" + option + "\nlimit 5/1m\n}\n}\n" }
	byUser, byField := limit("per key {http.auth.user.id}"), limit("per key {http.request.header.Remote-User}")
	auth := "forward_auth 127.0.0.1:1 {\nuri /\ncopy_headers Remote-User\n}\n"
	end := "respond hello\n"
	for name, c := range map[string]struct {
		body  string
		fatal bool
		says  string
	}{
		"key":                       {basicAuth + byUser + end, true, late},
		"key in a handle":           {"handle {\n" + basicAuth + byUser + end + "}\n", true, late},
		"key before in a route":     {"route {\n" + byUser + basicAuth + end + "}\n", true, late},
		"key behind in a route":     {"route {\n" + basicAuth + byUser + end + "}\n", false, ok},
		"key behind in its handle":  {basicAuth + "handle {\n" + byUser + end + "}\n", false, ok},
		"key in another handle":     {"handle /a* {\n" + basicAuth + end + "}\nhandle {\n" + byUser + end + "}\n", false, never},
		"key without users":         {byUser + end, false, never},
		"key for errors":            {basicAuth + end + "handle_errors {\n" + byUser + end + "}\n", false, ok},
		"tier":                      {basicAuth + "rate_limit {\nzone z {\nper ip\ntier {http.auth.user.plan} a\n}\n}\n" + end, true, late},
		"cost":                      {basicAuth + limit("cost {http.auth.user.cost}") + end, true, late},
		"cost of some":              {basicAuth + limit("cost 5 vars {http.auth.user.id} bob") + end, true, late},
		"match":                     {basicAuth + limit("match vars {http.auth.user.id} bob") + end, true, late},
		"match by an expression":    {basicAuth + limit("match expression `{http.auth.user.id} == \"bob\"`") + end, true, late},
		"exempt":                    {basicAuth + "rate_limit {\nzone z {\nlimit 5/1m\n}\nexempt vars {http.auth.user.id} bob\n}\n" + end, true, late},
		"trap":                      {basicAuth + "rate_limit {\ntrap vars {http.auth.user.id} bob\n}\n" + end, true, late},
		"peer's words":              {basicAuth + "rate_limit {\nzone z {\nkey {http.auth.user.id}\nevents 5\nwindow 1m\n}\n}\n" + end, false, late},
		"field of later handlers":   {auth + byField + end, false, late},
		"field of the client":       {byField + end, false, client},
		"field in a matcher":        {limit("match header Remote-User bob") + end, false, client},
		"field that is removed":     {"route {\nrequest_header -Remote-User\n" + byField + end + "}\n", false, ok},
		"field set later":           {"request_header X-Mine {client_ip}\n" + limit("per key {http.request.header.X-Mine}") + end, false, late},
		"field that nobody sets":    {limit("per key {http.request.header.X-Mine}") + end, false, ok},
		"field for users":           {auth + strings.Replace(byField, "rate_limit", "rate_limit_user", 1) + end, false, ok},
		"variable":                  {"vars plan free\n" + limit("per key {http.vars.plan}") + end, false, ok},
		"variable set later":        {"route {\n" + limit("per key {http.vars.plan}") + "vars plan free\n" + end + "}\n", false, late},
		"variable matched":          {"route {\n" + limit("match vars plan free") + "vars plan free\n" + end + "}\n", false, late},
		"map":                       {"map {host} {map.plan} {\na b\n}\n" + limit("per key {map.plan}") + end, false, ok},
		"map set later":             {"route {\n" + limit("per key {map.plan}") + "map {host} {map.plan} {\na b\n}\n" + end + "}\n", false, late},
		"answer":                    {limit("per key {http.response.header.X-A}") + end, false, noAnswer},
		"answer of a proxy":         {limit("per key {http.reverse_proxy.header.X-A}") + "reverse_proxy 127.0.0.1:1", false, noAnswer},
		"API keys":                  {basicAuth + limit("per api_key") + end, true, late},
		"API keys for users":        {basicAuth + strings.Replace(limit("per api_key"), "rate_limit", "rate_limit_user", 1) + end, false, ok},
		"named route":               {"route {\ninvoke limits\n" + basicAuth + "}\n", false, ok},
		"both directives":           {basicAuth + byUser + "rate_limit_user {\n" + perUser + "}\n" + end, true, late},
		"both without users":        {byField + "rate_limit_user {\n" + perUser + "}\n" + basicAuth + end, false, client},
		"two routes, the first":     {"route {\n" + byUser + end + "}\nroute {\n" + basicAuth + end + "}\n", true, late},
		"two routes, the second":    {"route {\n" + basicAuth + "}\nroute {\n" + byUser + end + "}\n", false, ok},
		"users behind what is late": {basicAuth + "rate_limit_user {\n" + perUser + "}\n" + end, false, ok},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := saidOf(t, options("rate_limit {\ntier a {\nlimit 5/1m\n}\napi_keys {\nfrom placeholder {http.auth.user.key}\n}\n}\n")+"&(limits) {\n"+byUser+"}\n"+site(c.body))
			if (err != nil) != c.fatal {
				t.Fatalf("%v: %s", err, out)
			}
			for _, problem := range []string{late, never, client, noAnswer} {
				if says := strings.Contains(out, problem); says != (problem == c.says) {
					t.Errorf("it says %q: %v\n%s", problem, says, out)
				}
			}
			if c.says != ok && (!strings.Contains(out, "rate_limit_user") || !strings.Contains(out, "Caddyfile:")) {
				t.Errorf("it says neither what to write nor where:\n%s", out)
			}
		})
	}
}

// In JSON the order is what it is, and the module is the same.
func TestOrderOfHandlersInOneRoute(t *testing.T) {
	noData(t)
	limit := `{"handler":"rate_limit","zones":[{"name":"z","key":"{http.auth.user.id}","limits":[{"amount":5,"window":"1m"}]}]}`
	auth := `{"handler":"authentication"}`
	for handlers, refused := range map[string]bool{limit + "," + auth: true, auth + "," + limit: false} {
		err := validate([]byte(`{"apps":{"http":{"servers":{"s":{"listen":[":9080"],"routes":[{"handle":[` + handlers + `]}]}}}}}`))
		if (err != nil) != refused {
			t.Errorf("%s: %v", handlers, err)
		}
	}
}

// What a config doesn't show, a request does.
func TestUserThatIsKnownTooLate(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient)+"&(limits) {\nrate_limit {\n"+perUser+"}\n}\n"+site("route {\ninvoke limits\n"+basicAuth+"respond hello\n}"))
	const warning = "per key: {http.auth.user.id} was empty when the zone counted a request, and was set later on its way"
	s.get("/", mallory)
	if lines := s.logLines(warning); len(lines) > 0 {
		t.Errorf("it warns of who isn't let in: %v", lines)
	}
	s.get("/", alice)
	s.get("/", bob)
	if lines := s.logLines(warning); len(lines) != 1 || lines[0]["zone"] != "user" || !strings.Contains(fmt.Sprint(lines[0]["write"]), "rate_limit_user") {
		t.Errorf("it warns %d times: %v", len(lines), lines)
	}
}
