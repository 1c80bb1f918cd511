package replayer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-tally/caddy-tally"
	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/operator/local"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
	"github.com/caddy-tally/caddy-tally/internal/testing/child"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// verdict is what a request's fate is compared by.
type verdict struct {
	Kind        string // passes, refused, denied, or the path of sessions
	Zone, Limit string // that refuse it
	Status      int    // of a refusal or a denial
	Retries     bool   // whether it may come again
	Shadows     string // the shadow limits that would refuse it
}

// The site, explain and the replay give the same verdict for the same request: for random configs,
// and random requests of few clients.
func TestSiteExplainAndReplayAgree(t *testing.T) {
	reached := make(map[string]int)
	for n := range proof.Times(8, 400) {
		t.Run(fmt.Sprint("seed=", n), func(t *testing.T) {
			g := &generator{Rand: rand.New(rand.NewPCG(uint64(n), 40))}
			s := start(t, g.config())
			s.reached, g.keys = reached, s.keys
			for range 250 {
				s.ask(g.request())
			}
			s.replay()
		})
	}
	wantReached(t, reached, "passes", "exempt", "allowed by a rule",
		"over_limit", "blocked", "too_costly", "empty key", "banned by a rule", "banned by a list", "banned for violations", "banned by a trap",
		"denied 400", "denied 401", "denied 403", "denied despite an allowance", "would be refused", "shadow denial", "fields of pass",
		"service header", "forged service header", "Connection names a field", "second handler")
}

// A replay knows nothing of requests that waited, but by the times of the log they find the units that
// they would have waited for: of five at a time, the second and the third wait a second each.
func TestDelaysInAReplay(t *testing.T) {
	s := start(t, "{\nadmin off\nauto_https off\n}\nhttp://a.example:{$PORT} {\nlog {\noutput file {$DIR}/log\n}\nroute {\n"+
		"rate_limit {\nzone z {\nlimit 1/1s burst 1\non_exceeded delay 2s\n}\n}\nanswer\n}\n}\n")
	for n, want := range []verdict{{Kind: "passes"}, {Kind: "passes"}, {Kind: "passes"}, {Kind: "refused", Zone: "z", Limit: "z"}, {Kind: "refused", Zone: "z", Limit: "z"}, {Kind: "passes"}} {
		s.lines = append(s.lines, fmt.Appendf(nil, `{"ts":%d,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.9","method":"GET","host":"a.example:%s","uri":"/"},"duration":0,"status":200}`+"\n", 1800000000+n/5*60, s.port))
		s.given = append(s.given, want)
	}
	s.replay()
}

// placesConfig has a site for each way to wait or to be sent away that no log tells.
const placesConfig = `{
	admin off
	auto_https off
	rate_limit {
		store sqlite {$DIR}/db
		session
	}
}
(site) {
	log {
		output file {$DIR}/log {
			roll_disabled
		}
	}
	route {
		rate_limit {
			zone {args[0]} {
				{block}
			}
		}
		answer
	}
}
http://place.example:{$PORT} {
	import site z1 {
		limit 1 concurrent
		limit 1000/24h
	}
}
http://queue.example:{$PORT} {
	import site z2 {
		limit 1 concurrent wait 1m queue 1
	}
}
http://shadow.example:{$PORT} {
	import site z3 {
		limit 1 concurrent
		shadow
	}
}
http://delay.example:{$PORT} {
	import site z4 {
		limit 2/1s burst 2
		cost {http.request.header.X-Cost}
		on_exceeded delay 1m
	}
}
http://challenge.example:{$PORT} {
	import site z5 {
		per client
		limit 1/24h
		on_exceeded challenge
	}
}
`

// The site and explain give the same verdict about requests that wait, or find no place, or are answered
// with a challenge.
func TestSiteAndExplainAgreeAboutPlaces(t *testing.T) {
	s := start(t, placesConfig)
	ask := func(kind, host, says string, fields ...string) string {
		t.Helper()
		r := request{method: "GET", host: host + ".example", path: "/", address: "192.0.2.9", header: make(http.Header)}
		for i := 0; i < len(fields); i += 2 {
			r.header.Set(fields[i], fields[i+1])
		}
		text := s.ask(r)
		if !strings.Contains(text, says) {
			t.Errorf("%s: explain says %q, want %q", kind, text, says)
		}
		return text
	}
	request := func(host string, fields ...string) request {
		return request{method: "GET", host: host + ".example", path: "/", address: "192.0.2.9", header: http.Header{"X-Held": fields}}
	}
	for _, host := range []string{"place", "queue", "shadow"} {
		ask("a free place", host, "passes")
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- s.serve(request(host, "yes")) }()
		<-held
		switch host {
		case "place":
			ask("no place", host, "is refused by limit z1-concurrent")
		case "shadow":
			ask("no place in shadow", host, "in shadow, it would be refused")
		case "queue":
			next := request(host)
			if text := s.explain(next).Next.Text; !strings.Contains(text, "it waits for others") {
				t.Errorf("explain says %q", text)
			}
			waited := make(chan *httptest.ResponseRecorder)
			go func() { waited <- s.serve(next) }()
			for s.explain(next).Next.Status == 0 && t.Context().Err() == nil { // until it waits
			}
			ask("a full queue", host, "is refused by limit z2")
			held <- struct{}{}
			if w := <-waited; w.Code != http.StatusOK {
				t.Errorf("the request that waited: %d", w.Code)
			}
		}
		if host != "queue" {
			held <- struct{}{}
		}
		<-done
		s.skip()
	}
	ask("free units", "delay", "passes", "X-Cost", "2")
	for !strings.Contains(ask("a delay", "delay", "passes", "X-Cost", "2"), "it waits") && t.Context().Err() == nil { // on a slow machine its units are free
	}
	ask("too long a delay", "delay", "is refused", "X-Cost", "3")
	browser := []string{"Accept", "text/html", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "User-Agent", "Mozilla/5.0"}
	ask("free units", "challenge", "passes", browser...)
	ask("a challenge", "challenge", ", with a challenge", browser...)
	r := request("challenge")
	r.path = "/.well-known/rate-limit/"
	if text := s.explain(r).Next.Text; !strings.Contains(text, "where clients earn sessions") {
		t.Errorf("explain says %q of the sessions' path", text)
	}
	if w := s.serve(r); w.Code != http.StatusOK || w.Header().Get("Reached") != "" {
		t.Errorf("the sessions' path: got %d %v", w.Code, w.Header())
	}
}

// wantReached fails the test if a kind of verdict was never reached.
func wantReached(t *testing.T, reached map[string]int, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		if reached[kind] == 0 {
			t.Errorf("no request was %q", kind)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(reached)) {
		t.Logf("%5d %s", reached[kind], kind)
	}
}

// The secrets of service headers.
const (
	internalToken = "token-of-internal"
	vendorToken   = "token-of-vendor-x"
)

// generator makes random configs and requests.
type generator struct {
	*rand.Rand
	zones int
	keys  []string // valid API keys
}

// one returns one of some texts.
func (g *generator) one(texts ...string) string { return texts[g.IntN(len(texts))] }

// maybe returns a text with the probability 1/n, or "".
func (g *generator) maybe(n int, text string) string {
	if g.IntN(n) > 0 {
		return ""
	}
	return text + "\n"
}

// config returns a Caddyfile.
func (g *generator) config() string {
	global := "store sqlite {$DIR}/db\nrules_file {$DIR}/rules\nblock_list {$DIR}/list\npressure off\n" +
		"tier free {\nlimit 4/24h\nlimit 9/7d name week\n}\ntier pro {\nlimit 12/24h\n}\n" +
		"tier internal {\nunlimited\nservice_header X-Service-Token " + internalToken + "\n}\n" +
		"tier vendor {\nlimit 6/24h\nservice_header X-Vendor-Token " + vendorToken + "\n}\n" +
		"api_keys {\nfrom header X-Api-Key\nfrom bearer\nfile {$DIR}/keys\n" +
		g.one("missing deny\nunknown deny", "missing deny\nunknown deny", "missing default free\nunknown deny", "missing default free\nunknown default") + "\n}\n" +
		g.one("", "reputation off\n") + g.maybe(2, "ban after 3 violations in 24h for 48h")
	sites := ""
	for n := range 6 {
		handlers := g.handler()
		if g.IntN(3) == 0 {
			handlers += g.handler()
		}
		sites += fmt.Sprintf("http://%d.example:{$PORT} {\nlog {\noutput file {$DIR}/log {\nroll_disabled\n}\n}\nroute {\n%sanswer\n}\n}\n", n, handlers)
	}
	return "{\nadmin off\nauto_https off\nservers {\nlog_credentials\n}\nrate_limit {\n" + global + "}\n}\n" + sites
}

func (g *generator) handler() string {
	text := "rate_limit {\n" + g.maybe(2, "exempt path /exempt/*") + g.maybe(3, "trap ban 24h /trap")
	for range 1 + g.IntN(3) {
		text += g.zone()
	}
	return text + "}\n"
}

func (g *generator) zone() string {
	g.zones++
	name := fmt.Sprint("z", g.zones)
	if g.IntN(8) == 0 {
		return "zone " + name + " {\nlimit 50/1s burst 2\non_exceeded delay 10s\n}\n"
	}
	text := "zone " + name + " {\n" + g.one("", "", "match /a\n", "match POST /login\n", "match not path /free\n", "match header X-Tenant *\n")
	per := g.one("ip", "ip", "network", "everyone", "client", "client", "api_key", "key {http.request.header.X-Tenant}")
	text += "per " + per + "\n"
	if strings.HasPrefix(per, "key") {
		text += g.one("", "on_empty_key skip\n", "on_empty_key deny\n", "on_empty_key share\n")
	}
	if per == "client" || per == "api_key" {
		text += g.maybe(3, "ban after 1 violations in 24h for 48h")
	}
	switch g.IntN(6) {
	case 0:
		text += "tiers\n"
	case 1:
		text += g.one("tier {http.request.header.X-Plan}\n", "tier {http.request.header.X-Plan} free\n")
	default:
		text += "limit " + g.one("4/24h", "7/24h", "10/24h burst 5", "8/7d fixed", "25/48h") + "\n"
		text += g.maybe(3, "limit "+g.one("9/48h", "15/7d")+" name "+name+"-more "+g.one("", "shadow"))
	}
	text += g.maybe(5, "cost 2 /a") + g.maybe(5, "cost {http.request.header.X-Cost}") + g.maybe(6, "max_cost 3")
	switch g.IntN(8) {
	case 0:
		text += "count status 401" + g.one("", " hold") + "\n"
	case 1:
		text += "on_exceeded pass " + g.one("", "X-Over-Limit") + "\n"
	case 2:
		text += "shadow\n"
	case 3:
		if !strings.Contains(text, "cost") {
			text += "cost 2\nsettle bytes\n"
		}
	}
	return text + "}\n"
}

// request is a random request.
type request struct {
	method, host, path, address string
	header                      http.Header
}

// hosts are the addresses of clients. The first three have rules, the fourth is on a list.
var hosts = []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "198.51.100.4", "192.0.2.5", "192.0.2.6", "203.0.113.7", "2001:db8::8", "2001:db8:1::9"}

const (
	rulesText = "ban 192.0.2.1\nallow 192.0.2.2\nban 192.0.2.3 until 2099-01-01\nallow api-key:friend\nban api-key:foe\nban key:banned\n"
	listText  = "198.51.100.0/24\n"
)

func (g *generator) request() request {
	r := request{
		method: g.one("GET", "GET", "POST", "HEAD"), host: fmt.Sprint(g.IntN(6), ".example"),
		path:    g.one("/", "/", "/a", "/a/b", "/login", "/free", "/exempt/x"),
		address: hosts[g.IntN(len(hosts))],
		header:  http.Header{"User-Agent": {g.one("curl/8", "Mozilla/5.0 (X11; Linux x86_64) Firefox/145.0")}},
	}
	if g.IntN(40) == 0 {
		r.path = "/trap"
	}
	set := func(n int, field string, values ...string) {
		if g.IntN(n) == 0 {
			r.header[field] = append(r.header[field], g.one(values...))
		}
	}
	set(2, "X-Tenant", "a", "b", "c", "", "banned")
	set(3, "X-Api-Key", append(g.keys, g.keys[0], "unknown", "not one token")...)
	set(8, "Authorization", "Bearer "+g.keys[0], "Bearer "+g.keys[1])
	set(4, "X-Cost", "0", "1", "2", "40", "x")
	set(3, "X-Plan", "free", "pro", "none")
	set(6, "X-Service-Token", internalToken, internalToken, "wrong-token-of-nobody")
	set(8, "X-Vendor-Token", vendorToken)
	set(30, "X-Service-Token", internalToken)
	set(8, "Connection", "X-Tenant", "keep-alive, x-api-key", "close")
	set(6, "X-Over-Limit", "forged")
	set(9, "X_over_limit", "forged")
	set(3, "X-Status", "401", "500")
	set(2, "Sec-Fetch-Site", "same-origin", "cross-site")
	return r
}

// held receives when a request is under way that asks for it, which ends with the next value.
var held = make(chan struct{})

// answer is the handler behind ours.
type answer struct{}

func init() {
	caddy.RegisterModule(answer{})
	httpcaddyfile.RegisterHandlerDirective("answer", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) { return answer{}, nil })
	httpcaddyfile.RegisterDirectiveOrder("answer", httpcaddyfile.Before, "respond")
}

// CaddyModule returns the Caddy module information.
func (answer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.answer", New: func() caddy.Module { return new(answer) }}
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (answer) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	w.Header()["Over"] = r.Header["X-Over-Limit"]
	w.Header()["Over-Twin"] = r.Header["X_over_limit"]
	w.Header()["Reached"] = []string{"yes"}
	w.Header()["Service-Fields"] = append(r.Header["X-Service-Token"], r.Header["X-Vendor-Token"]...)
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	for n := 1; n < 100; n++ {
		if names := repl.ReplaceAll(fmt.Sprintf("{http.rate_limit.z%d.would_refuse}", n), ""); names != "" {
			for name := range strings.SplitSeq(names, ", ") {
				w.Header().Add("Would-Refuse", fmt.Sprintf("z%d: %s", n, name))
			}
		}
	}
	if r.Header.Get("X-Held") != "" {
		held <- struct{}{}
		<-held
	}
	switch r.Header.Get("X-Status") {
	case "401":
		w.WriteHeader(http.StatusUnauthorized)
	case "500":
		return caddyhttp.Error(http.StatusInternalServerError, nil)
	}
	_, err := w.Write([]byte("text"))
	return err
}

// site is a Caddy in this process.
type site struct {
	*testing.T
	dir, config string
	text        string
	port        string
	server      *caddyhttp.Server
	service     operator.Service
	read        int64 // of the log
	lines       [][]byte
	given       []verdict // for each line
	keys        []string  // valid API keys
	reached     map[string]int
}

// start starts a site. {$DIR} and {$PORT} in its config stand for a folder and a port.
func start(t *testing.T, config string) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir(), reached: make(map[string]int)}
	t.Setenv("XDG_DATA_HOME", s.dir)
	t.Setenv("XDG_CONFIG_HOME", s.dir)
	port, err := child.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s.port = port
	s.text = strings.NewReplacer("{$DIR}", s.dir, "{$PORT}", port).Replace(config)
	s.config = s.write("Caddyfile", s.text)
	s.write("rules", rulesText)
	s.write("list", listText)
	for _, client := range []apikeys.Holder{{Name: "acme", Tier: "free"}, {Name: "acme/web", Tier: "pro"}, {Name: "friend", Tier: "free"}, {Name: "foe", Tier: "pro"}} {
		key, err := apikeys.New(filepath.Join(s.dir, "keys"), client)
		if err != nil {
			t.Fatal(err)
		}
		s.keys = append(s.keys, key)
	}
	caddy.BufferedLog()
	adapted, _, _, err := caddycmd.LoadConfig(s.config, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, s.text)
	}
	if err := caddy.Load(quiet(t, adapted), true); err != nil {
		t.Fatalf("%v\n%s", err, s.text)
	}
	t.Cleanup(func() { caddy.Stop() })
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range app.(*caddyhttp.App).Servers {
		s.server = server
	}
	s.service = local.New(func() *enforce.Config {
		app, err := caddy.ActiveContext().AppIfConfigured("rate_limit")
		if err != nil {
			return nil
		}
		return app.(interface{ Enforcer() *enforce.Config }).Enforcer()
	}, "test", time.Now())
	return s
}

// quiet keeps Caddy's own log out of the test's.
func quiet(t *testing.T, config []byte) []byte {
	var parsed map[string]any
	if err := json.Unmarshal(config, &parsed); err != nil {
		t.Fatal(err)
	}
	logs := parsed["logging"].(map[string]any)["logs"].(map[string]any)
	logs["default"].(map[string]any)["writer"] = map[string]any{"output": "discard"}
	text, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (s *site) write(name, text string) string {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// explain asks about a request.
func (s *site) explain(r request) operator.Explanation {
	s.Helper()
	question := operator.Question{Client: r.address, URL: "http://" + r.host + ":" + s.port + r.path, Method: r.method, Header: r.header.Clone()}
	told, err := s.service.Explain(s.Context(), question)
	if err != nil {
		s.Fatal(err)
	}
	return told
}

// ask asks explain about a request, and sends it to the site. It returns what explain says.
func (s *site) ask(r request) (text string) {
	s.Helper()
	told := s.explain(r)
	got, w := s.send(r)
	forecast := told.Next
	explained := verdict{Kind: "passes", Shadows: sorted(forecast.WouldRefuse)}
	switch {
	case forecast.Outcome == "denied" && forecast.Zone == "":
		explained = verdict{Kind: "denied", Status: forecast.Status}
	case forecast.Status != 0:
		explained = verdict{Kind: "refused", Zone: forecast.Zone, Limit: forecast.Limit, Status: forecast.Status, Retries: forecast.Retry > 0}
	}
	if explained != got {
		s.Fatalf("%+v\nthe site: %+v\nexplain:  %+v\n%s\n%s", r, got, explained, forecast.Text, s.text)
	}
	s.note(r, got, told, w)
	return forecast.Text
}

// send sends a request to the site, and returns its verdict.
func (s *site) send(r request) (verdict, *httptest.ResponseRecorder) {
	s.Helper()
	w := s.serve(r)
	line := s.line()
	s.lines = append(s.lines, line)
	var logged struct {
		By struct{ Zone, Limit string } `json:"rate_limit"`
	}
	if err := json.Unmarshal(line, &logged); err != nil {
		s.Fatal(err)
	}
	got := verdict{Kind: "denied", Status: w.Code}
	switch {
	case w.Header().Get("Reached") != "":
		got = verdict{Kind: "passes", Shadows: sorted(w.Header()["Would-Refuse"])}
	case logged.By.Zone != "":
		got = verdict{Kind: "refused", Zone: logged.By.Zone, Limit: logged.By.Limit, Status: w.Code, Retries: w.Header().Get("Retry-After") != ""}
	}
	s.given = append(s.given, got)
	return got, w
}

// serve serves a request.
func (s *site) serve(r request) *httptest.ResponseRecorder {
	sent := httptest.NewRequest(r.method, r.path, http.NoBody)
	sent.Host, sent.RemoteAddr, sent.Header = r.host+":"+s.port, net.JoinHostPort(r.address, "1024"), r.header.Clone()
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, sent)
	return w
}

func sorted(texts []string) string { return strings.Join(slices.Sorted(slices.Values(texts)), ", ") }

// skip skips what the access log has so far.
func (s *site) skip() {
	info, err := os.Stat(filepath.Join(s.dir, "log"))
	if err != nil {
		s.Fatal(err)
	}
	s.read = info.Size()
}

// line returns the next line of the access log.
func (s *site) line() []byte {
	file, err := os.Open(filepath.Join(s.dir, "log"))
	if err != nil {
		s.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		s.Fatal(err)
	}
	line := make([]byte, info.Size()-s.read)
	if _, err := file.ReadAt(line, s.read); err != nil {
		s.Fatal(err)
	}
	s.read = info.Size()
	if bytes.Count(line, []byte("\n")) != 1 {
		s.Fatalf("got %s, want one line", line)
	}
	return line
}

// note notes the kinds of a request's verdict.
func (s *site) note(r request, got verdict, told operator.Explanation, w *httptest.ResponseRecorder) {
	reach := func(holds bool, kind string) {
		if holds {
			s.reached[kind]++
		}
	}
	next := told.Next
	reach(got.Kind == "passes", "passes")
	reach(next.Outcome == "exempt", "exempt")
	reach(strings.Contains(next.Text, "an operator allows it"), "allowed by a rule")
	reach(got.Kind == "denied", fmt.Sprint("denied ", got.Status))
	reach(got.Kind == "denied" && r.address == "192.0.2.2", "denied despite an allowance")
	if got.Kind == "refused" {
		reach(next.Outcome != "banned" && next.Outcome != "denied", next.Outcome)
		reach(next.Outcome == "denied", "empty key")
		reach(strings.Contains(next.Text, "has banned the client") && r.address != "198.51.100.4", "banned by a rule")
		reach(strings.Contains(next.Text, "is in a block list"), "banned by a list")
		reach(strings.Contains(next.Text, "for what it did"), "banned for violations")
		reach(strings.Contains(next.Text, "goes into a trap"), "banned by a trap")
	}
	reach(got.Shadows != "", "would be refused")
	reach(strings.Contains(next.Text, "it waits"), "delayed")
	reach(strings.Contains(got.Shadows, ": denied"), "shadow denial")
	reach(len(w.Header()["Over"]) > 0 && w.Header()["Over"][0] != "forged", "fields of pass")
	token := r.header["X-Service-Token"]
	reach(len(token) == 1 && token[0] == internalToken && told.Tier == "internal", "service header")
	reach(len(token) == 1 && token[0] != internalToken || len(token) == 2, "forged service header")
	reach(len(r.header["Connection"]) > 0 && r.header["Connection"][0] != "close", "Connection names a field")
	reach(got.Kind == "refused" && w.Header()["Ratelimit"] != nil && strings.Contains(w.Header()["Ratelimit"][0], ","), "several limits")
	reach(got.Kind == "refused" && s.isSecond(r.host, got.Zone), "second handler")
	if fields := w.Header()["Service-Fields"]; len(fields) > 0 {
		s.Fatalf("%+v: later handlers see %q", r, fields)
	}
}

// isSecond reports whether a zone belongs to the second handler of a host.
func (s *site) isSecond(host, zone string) bool {
	_, text, _ := strings.Cut(s.text, "http://"+host)
	text, _, _ = strings.Cut(text, "answer")
	parts := strings.Split(text, "rate_limit {")
	return len(parts) > 2 && strings.Contains(parts[2], "zone "+zone+" ")
}

// replay replays the log, whose verdicts must be the site's.
func (s *site) replay() {
	s.Helper()
	config, err := replayer.Load(s.config, "")
	if err != nil {
		s.Fatal(err)
	}
	defer config.Close()
	parser, err := accesslog.NewParser("")
	if err != nil {
		s.Fatal(err)
	}
	log, err := accesslog.NewMerger(parser, []string{"-"}, bytes.NewReader(bytes.Join(s.lines, nil)))
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	n := 0
	err = config.Judged(log, func(r *accesslog.Record, v *replay.Verdict) {
		got, want := verdict{Kind: "passes"}, s.given[n]
		var shadows []string
		for _, shadow := range v.Shadows {
			shadows = append(shadows, shadow.By.Zone+": "+shadow.By.Name)
		}
		switch v.Outcome {
		case replay.Passed, replay.Unlimited:
			got.Shadows = sorted(shadows)
		case replay.Refused:
			got.Kind, got.Zone, got.Limit = "refused", v.By.Zone, v.By.Name
		case replay.Denied:
			got.Kind = "denied"
		case replay.Skipped:
			got.Kind = v.Reason
		}
		want.Status, want.Retries = 0, false
		if got != want && !s.Failed() {
			s.Errorf("request %d: %s\nthe site:   %+v\nthe replay: %+v, %s\n%s", n, s.lines[n], want, got, v.Reason, s.text)
		}
		n++
	})
	if err != nil || n != len(s.lines) && !s.Failed() {
		s.Errorf("%d of %d requests were replayed, %v", n, len(s.lines), err)
	}
}
