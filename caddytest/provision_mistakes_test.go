package caddytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// warning is a line of the log about a config.
type warning struct {
	Level, Logger, Msg, Write, Zone, At string
}

// load adapts and validates a Caddyfile, and returns what is logged of it as a warning
// by the module.
func load(t *testing.T, input string) (warnings []warning, err error) {
	t.Helper()
	raw, _, err := adaptCaddyfile([]byte(input), nil)
	if err != nil {
		return nil, err
	}
	return loadJSON(t, raw)
}

func loadJSON(t *testing.T, raw []byte) (warnings []warning, err error) {
	t.Helper()
	lines, err := logOf(t, raw)
	for line := range strings.Lines(lines) {
		var w warning
		if json.Unmarshal([]byte(line), &w) == nil && w.Level == "warn" && strings.Contains(w.Logger, "rate_limit") {
			warnings = append(warnings, w)
		}
	}
	return warnings, err
}

// logOf validates a config in this process, and returns what is logged.
func logOf(t *testing.T, raw []byte) (lines string, err error) {
	t.Helper()
	number := logsInMemory.Add(1)
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	logging, _ := config["logging"].(map[string]any)
	logs, _ := logging["logs"].(map[string]any)
	if logs == nil {
		logs = make(map[string]any)
	}
	logs["default"] = map[string]any{"writer": map[string]any{"output": "caddytest", "number": number}, "encoder": map[string]any{"format": "json"}}
	config["logging"] = map[string]any{"logs": logs}
	if raw, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	err = validate(raw)
	opened, ok := logsOpened.LoadAndDelete(number)
	if !ok {
		t.Fatal("the log was not opened")
	}
	log := opened.(*logInMemory)
	log.mu.Lock()
	defer log.mu.Unlock()
	return log.lines.String(), err
}

// logInMemory is the log of a config that is only validated: a file for each would take longer than the rest.
type logInMemory struct {
	Number int64 `json:"number"`

	mu    sync.Mutex
	lines bytes.Buffer // guarded by mu
}

var (
	logsInMemory atomic.Int64
	logsOpened   sync.Map // logs by their numbers
)

func init() { caddy.RegisterModule(new(logInMemory)) }

// CaddyModule returns the Caddy module information.
func (*logInMemory) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.writers.caddytest", New: func() caddy.Module { return new(logInMemory) }}
}

// String, WriterKey, OpenWriter, Write and Close implement a writer of logs.
func (l *logInMemory) String() string    { return l.WriterKey() }
func (l *logInMemory) WriterKey() string { return fmt.Sprint("caddytest ", l.Number) }
func (l *logInMemory) Close() error      { return nil }

func (l *logInMemory) OpenWriter() (io.WriteCloser, error) {
	logsOpened.Store(l.Number, l)
	return l, nil
}

func (l *logInMemory) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

// mustValidate validates the server's config in this process, and returns what is logged.
func (s *server) mustValidate() string {
	s.t.Helper()
	text := readSample(s.t, s.config)
	for _, variable := range s.env {
		name, value, _ := strings.Cut(variable, "=")
		text = strings.ReplaceAll(text, "{$"+name+"}", value)
	}
	raw, _, err := adaptCaddyfile([]byte(text), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	lines, err := logOf(s.t, raw)
	if err != nil {
		s.t.Fatal(err)
	}
	return lines
}

// saidOf validates the config of a server that isn't started, and returns what is said of it.
func saidOf(t *testing.T, config string) (said string, err error) {
	t.Helper()
	noData(t)
	warnings, err := load(t, strings.NewReplacer("{$ADMIN}", "127.0.0.1:2019", "{$PORT}", "9080").Replace(config))
	return fmt.Sprintf("%+v %v", warnings, err), err
}

// What Caddy accepts and nobody can mean is an error in our own words, with what to
// write and the line.
func TestMistakesThatCaddyAcceptsAreErrors(t *testing.T) {
	noData(t)
	for _, block := range []struct {
		in    func(string) string
		cases [][2]string
	}{
		{func(s string) string { return inZone(s + "\n\t\t\tlimit 5/1m") }, [][2]string{
			{"match path login", "write path /login"},
			{"match {\n\t\t\t\tpath login\n\t\t\t}", "write path /login"},
			{"match not path login", "write path /login"},
			{"match not", "write not path /health"},
			{"match path /login method POST", "write match POST /login"},
			{"match path /login POST", "write match POST /login"},
			{"match method POST path /login", "write match POST /login"},
			{"match host example.com path /login", "write match /login, or a block"},
			{"match path = /login", "leave it out"},
			{"match path ^/login$", "which is a regular expression: expected a path, such as /login or /api/*"},
			{"match path https://example.com/login", "write host example.com and path /login, each on a line of its own"},
			{"match path /login?x=1", "write endpoint /login x=1"},
			{"match host https://example.com", "write host example.com"},
			{"match host example.com/login", "write host example.com"},
			{"match method POST,PUT", "write method POST PUT"},
			{"cost 10 path export", "write path /export"},
			{"per key {remote}", "write per ip"},
			{"per key {remote_host}{remote_port}", "write per ip"},
			{"per key {uuid}", "write per ip"},
			{"per key {time.now.unix}", "write per ip"},
			{"per key {remote_ip}", "did you mean {http.vars.client_ip}?"},
			{"per key {http.request.remote.ip}", "did you mean {http.vars.client_ip}?"},
			{"per key {user.id}", "did you mean {http.auth.user.id}?"},
			{"per key {request.header.X-Tenant}", "did you mean {http.request.header.X-Tenant}?"},
			{"per key $binary_remote_addr", "is a brace missing?"},
			{"per key {http.request.header.X-Tenant", "is a brace missing?"},
			{"per key ip", "write per ip"},
			{"per key client_ip", "write per ip"},
			{"per key user", "write per ip; or a placeholder such as per key {http.request.header.X-Tenant}"},
			{"per key 192.0.2.1", "write per ip"},
		}},
		{inDirective, [][2]string{
			{"trap ban 1h path wp-login.php", "write path /wp-login.php"},
			{"zone a {\n\t\t\tmatch path /login, /signin\n\t\t\tlimit 5/1m\n\t\t}", "write path /login /signin"},
			{"zone a {\n\t\t\tmatch method POST,PUT\n\t\t\tlimit 5/1m\n\t\t}", "write method POST PUT"},
			{"zone a {\n\t\t\tmatch host a.example, b.example\n\t\t\tlimit 5/1m\n\t\t}", "write host a.example b.example"},
			{"zone a {\n\t\t\tmatch path login\n\t\t\tlimit 5/1m\n\t\t}", "write path /login"},
		}},
		{func(s string) string { return ":9080 {\n\n\trate_limit {\n\t\t" + s + "\n\t}\n}\n" }, [][2]string{
			{"exempt path health", "write path /health"},
			{"exempt not", "write not path /health"},
		}},
		{func(s string) string {
			return ":9080 {\n\t@a path login\n\trate_limit {\n\t\tzone a {\n\t\t\tmatch @a\n\t\t\tlimit 5/1m\n\t\t}\n\t}\n}\n"
		}, [][2]string{{"a named matcher", "write path /login"}}},
	} {
		for _, tt := range block.cases {
			t.Run(tt[0], func(t *testing.T) {
				_, err := load(t, block.in(tt[0]))
				if err == nil {
					t.Fatal("accepted")
				}
				at := ", at Caddyfile:4" // the line of the option
				if strings.HasPrefix(tt[0], "trap") {
					at = ", at Caddyfile:3"
				} else if tt[0] == "a named matcher" {
					at = ", at Caddyfile:5"
				}
				if !strings.Contains(err.Error(), tt[1]) || !strings.HasSuffix(err.Error(), at) {
					t.Errorf("error is\n%v\nwant in it %q and %q at its end", err, tt[1], at)
				}
			})
		}
	}
}

// What may be meant, and hardly is, loads with a warning: in mholt's words also what
// is an error in ours, because such configs must load.
func TestDoubtfulConfigsAreWarnedOf(t *testing.T) {
	noData(t)
	peer := func(s string) string { return inZone(s + "\n\t\t\tevents 5\n\t\t\twindow 1m") }
	own := func(s string) string { return inZone(s + "\n\t\t\tlimit 5/1m") }
	for _, tt := range []struct{ name, input, msg, write string }{
		{"peer host", peer("match host https://example.com"), "never matches", "host example.com"},
		{"peer port", peer("key {remote}"), "has the port in it", "per ip"},
		{"peer word", peer("key remote_ip"), "everybody shares one count", "per ip; or a placeholder such as per key {http.request.header.X-Tenant}"},
		{"peer unknown", peer("key {remote_ip}"), "counted by their address", "per ip, or a known placeholder"},
		{"peer short window", inZone("events 5\n\t\t\twindow 1ms"), "raised to 100ms", "a longer window, such as 1s"},
		{"static key", own("per key everything"), "everybody shares one count", "per ip"},
		{"query", own("per key {uri}"), "every ?x=1 that it adds", "per key \"{client_ip} {http.request.uri.path}\"; or per ip alone"},
		{"cost above the limit", own("cost 10"), `every request costs 10, and the limit "login" never has more than 5`, "a cost of at most 5, or a limit of at least 10"},
		{"cost of nothing", own("cost 0"), "the zone limits nobody", "a cost of at least 1, or costs with matchers for the requests that count"},
		{"forwarded", own("per key {header.X-Forwarded-For}"), "another limit with every other value", "per ip, and trusted_proxies in the global option servers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			warnings, err := load(t, tt.input)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(warnings, func(w warning) bool {
				return strings.Contains(w.Msg, tt.msg) && w.Write == tt.write && w.At == "Caddyfile:3" && w.Zone == "login"
			})
			if i < 0 || len(warnings) != 1 {
				t.Errorf("warned of %+v, want only %q with %q to write", warnings, tt.msg, tt.write)
			}
		})
	}
}

// mholt's options for several machines are answered with the lines that do here what they
// did there.
func TestDistributedIsAnsweredWithAStore(t *testing.T) {
	noData(t)
	const shared = " and the same secret_file on each, in the global option rate_limit"
	for _, tt := range []struct{ storage, write string }{
		{`"distributed":{}`, "neither of them on one machine; for several, store redis redis://<host>:6379" + shared},
		{`"distributed":{},"storage":{"module":"file_system","root":"/mnt/shared"}`, "neither of them on one machine; for several, store redis redis://<host>:6379" + shared},
		{`"storage":{"module":"file_system","root":"/mnt/shared"}`, "neither of them"},
	} {
		warnings, err := loadJSON(t, []byte(`{"apps":{"http":{"servers":{"a":{"listen":[":0"],"routes":[{"handle":[{"handler":"rate_limit",`+
			`"rate_limits":{"login":{"limits":[{"amount":5,"window":"1m"}]}},`+tt.storage+`}]}]}}}}}`))
		if err != nil {
			t.Errorf("%s: %v", tt.storage, err)
		}
		if !slices.ContainsFunc(warnings, func(w warning) bool {
			return strings.HasPrefix(w.Msg, "distributed and storage have no effect: counts are kept in ") && w.Write == tt.write
		}) {
			t.Errorf("%s: warned of %+v, want one with %q to write", tt.storage, warnings, tt.write)
		}
	}
}

// What is wrong between parts of a config loads with a warning.
func TestMistakesBetweenPartsAreWarnedOf(t *testing.T) {
	noData(t)
	const trusting = "{\n\tservers {\n\t\ttrusted_proxies static private_ranges\n\t\ttrusted_proxies_strict\n\t}\n}\n"
	two := func(first, second string) string {
		return "http://a.test {\n\trate_limit {\n\t\tzone login {\n\t\t\t" + first + "\n\t\t}\n\t}\n}\nhttp://b.test {\n\trate_limit {\n\t\tzone login {\n\t\t\t" + second + "\n\t\t}\n\t}\n}\n"
	}
	snippet := func(body string) string {
		return "(limited) {\n\trate_limit {\n\t\tzone login {\n\t\t\t" + body + "\n\t\t}\n\t}\n}\nhttp://a.test {\n\timport limited\n}\nhttp://b.test {\n\timport limited\n}\n"
	}
	banning := func(zone string) string {
		return "{\n\trate_limit {\n\t\tban after 5 violations in 10m for 1h\n\t}\n}\n" + inZone(zone)
	}
	user := func(field, more string) string {
		return ":9080 {\n\trate_limit_user {\n\t\tzone login {\n\t\t\tper key {http.auth.user." + field + "}\n\t\t\tlimit 5/1m\n\t\t}\n\t}\n" + more + "}\n"
	}
	const basic = "\tbasic_auth {\n\t\tbob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n\t}\n"
	failing := func(directive, more string) string {
		return ":9080 {\n\t" + directive + " {\n\t\tzone login {\n\t\t\tper ip\n\t\t\tlimit 5/1m\n\t\t\tcount status 401\n\t\t}\n\t}\n" + more + "}\n"
	}
	showing := func(placeholder string) string {
		return ":9080 {\n\trate_limit {\n\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t}\n\t}\n\theader >X-Left " + placeholder + "\n}\n"
	}
	for _, tt := range []struct{ name, input, msg, write, at string }{
		{"other amounts", two("limit 5/1m", "limit 50/1m"), "has other limits, at Caddyfile:3", "another name, or scope site", "Caddyfile:10"},
		{"other amounts in mholt's words", two("events 5\n\t\t\twindow 1m", "events 6\n\t\t\twindow 1m"), "has other limits, at Caddyfile:3", "another name", "Caddyfile:11"},
		{"other windows", two("limit 5/1m", "limit 5/1h"), "has other limits", "another name", "Caddyfile:10"},
		{"same limits", two("limit 5/1m", "limit 5/1m"), "also in another handler, at Caddyfile:3", "scope shared if that is meant", "Caddyfile:10"},
		{"a snippet", snippet("limit 5/1m"), "also in another handler", "scope site if each site counts on its own", "Caddyfile:3"},
		{"a ban for nobody", banning("limit 5/1m"), "nobody is banned", "per client", "Caddyfile:2"},
		{"a proxy's address is exempt", trusting + inDirective("exempt remote_ip 192.0.2.1\n\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t}"), "exempt: remote_ip is the address of the proxy", "client_ip", "Caddyfile:8"},
		{"a proxy's address is matched", trusting + inZone("match not remote_ip 192.0.2.1\n\t\t\tlimit 5/1m"), "match: remote_ip is the address of the proxy", "client_ip", "Caddyfile:9"},
		{"a proxy's address is a trap", trusting + inDirective("trap remote_ip 192.0.2.1"), "trap: remote_ip is the address of the proxy", "client_ip", "Caddyfile:9"},
		{"a proxy's address is a key", trusting + inZone("key {remote_host}\n\t\t\tevents 5\n\t\t\twindow 1m"), "is the address of the proxy", "per ip", "Caddyfile:9"},
		{"no zone", ":9080 {\n\trate_limit\n}\n", "has no zone, and limits nothing", "zone login {", "Caddyfile:2"},
		{"only exemptions", inDirective("exempt /health"), "has no zone, and limits nothing", "zone login {", "Caddyfile:2"},
		{"failed logins that nobody sees", failing("rate_limit_user", basic), "basic_auth runs before this handler", "rate_limit instead of rate_limit_user", "Caddyfile:3"},
		{"failed logins at another server", failing("rate_limit_user", "\tforward_auth 127.0.0.1:9091 {\n\t\turi /verify\n\t}\n"), "forward_auth runs before this handler", "rate_limit instead of rate_limit_user", "Caddyfile:3"},
		{"a zone that there is not", showing("{http.rate_limit.lgin.remaining}"), `there is no zone "lgin"`, "{http.rate_limit.login.remaining}", ""},
		{"the end of a name of ours", showing("{http.rate_limit.retry_after}"), "is never set", "{http.rate_limit.exceeded.retry_after}", ""},
		{"a name unlike ours", showing("{http.rate_limit.whatever}"), "is never set", "one that is, such as {http.rate_limit.exceeded.name}", ""},
		{"a name of ours that there is not", showing("{http.rate_limit.exceded.name}"), "is never set", "{http.rate_limit.exceeded.name}", ""},
		{"a ban in shadow", inZone("per client\n\t\t\tshadow\n\t\t\tlimit 5/1m\n\t\t\tban after 5 violations in 10m for 1h"), "ban: no limit of the zone is enforced", "ban with limits that are enforced", "Caddyfile:3"},
		{"a challenge in shadow", "{\n\trate_limit {\n\t\tsession\n\t}\n}\n" + inZone("per client\n\t\t\tlimit 5/1m shadow\n\t\t\ton_exceeded challenge"), "on_exceeded: no limit of the zone is enforced", "on_exceeded challenge with limits", "Caddyfile:8"},
		{"a ban for a zone in shadow", banning("per client\n\t\t\tshadow\n\t\t\tlimit 5/1m"), "nobody is banned", "per client", "Caddyfile:2"},
		{"a shadow limit above others", inZone("limit 5/1m shadow\n\t\t\tlimit 10/1m"), "5/1m shadow stands above an enforced limit", "below the enforced limits", "Caddyfile:3"},
		{"an empty key that is refused though limits are in shadow", inZone("per key {header.X-Name}\n\t\t\ton_empty_key deny\n\t\t\tlimit 5/1m shadow"), "on_empty_key deny refuses requests all the same", "shadow into a line of its own", "Caddyfile:3"},
		{"a cost that no shadow limit can hold", inZone("cost 9\n\t\t\tlimit 5/1m shadow"), "so all would be refused", "a cost of at most 5", "Caddyfile:3"},
		{"a placeholder of a zone without shadow", showing("{http.rate_limit.login.would_refuse}"), `no limit of zone "login" has shadow`, "limit 5/1m shadow into the zone", ""},
		{"basic_auth has no names", user("nmae", basic), "basic_auth sets {http.auth.user.id} only", "{http.auth.user.id}", "Caddyfile:3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			warnings, err := load(t, tt.input)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.DeleteFunc(slices.Clone(warnings), func(w warning) bool {
				return !strings.Contains(w.Msg, tt.msg) || !strings.Contains(w.Write, tt.write) || w.At != tt.at
			})
			if len(found) != 1 {
				t.Errorf("warned of %+v, want once %q with %q to write, at %q", warnings, tt.msg, tt.write, tt.at)
			}
		})
	}
	for name, input := range map[string]string{
		"shared on purpose":     two("limit 5/1m\n\t\t\tscope shared", "limit 5/1m\n\t\t\tscope shared"),
		"each on its own":       two("limit 5/1m\n\t\t\tscope site", "limit 50/1m\n\t\t\tscope site"),
		"mholt's":               two("events 5\n\t\t\twindow 1m", "events 5\n\t\t\twindow 1m"),
		"one site, two ports":   "http://a.test, http://a.test:8081 {\n\trate_limit {\n\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t}\n\t}\n}\n",
		"a ban for clients":     banning("per client\n\t\t\tlimit 5/1m"),
		"a ban by a trap":       "{\n\trate_limit {\n\t\tban after 5 violations in 10m for 1h\n\t}\n}\n" + strings.Replace(inDirective("trap endpoint /a"), ":9080", "https://a.test", 1),
		"a user's name":         user("id", basic),
		"failed logins":         failing("rate_limit", basic+"\treverse_proxy 127.0.0.1:3000\n"),
		"a zone in shadow":      inZone("shadow\n\t\t\tlimit 5/1m\n\t\t\tlimit 50/1h"),
		"shadow below others":   inZone("limit 10/1m\n\t\t\tlimit 5/1m shadow\n\t\t\tlimit 3/1m shadow"),
		"shadow of other kinds": inZone("limit 50/1h shadow\n\t\t\tlimit 10/1m"),
		"a zone's would_refuse": strings.Replace(showing("{http.rate_limit.login.would_refuse}"), "limit 5/1m", "limit 5/1m shadow", 1),
		"a zone's remaining":    strings.Replace(showing("{http.rate_limit.login.remaining}{http.rate_limit.client.kind}{http.rate_limit.exceeded.limit}"), "limit 5/1m", "per client\n\t\t\tlimit 5/1m", 1),
		"the peer's address":    inDirective("exempt remote_ip 192.0.2.1\n\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t}"),
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := load(t, input)
			if err != nil || len(warnings) > 0 {
				t.Errorf("error %v, warnings %+v", err, warnings)
			}
		})
	}
	_, err := load(t, inZone("per key {http.rate_limit.nosuch.remaining}\n\t\t\tlimit 5/1m"))
	if err == nil || !strings.Contains(err.Error(), `there is no zone "nosuch": write {http.rate_limit.login.remaining}, at Caddyfile:3`) {
		t.Errorf("a key of a zone that there is not: error is %v", err)
	}
}

// Handlers that never run, options that mean everything, and options that contradict each other
// load with a warning each.
func TestConfigsThatCannotBeMeantAreWarnedOf(t *testing.T) {
	noData(t)
	const zone = "\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t}\n"
	limited := "\trate_limit {\n" + zone + "\t}\n"
	session := "{\n\trate_limit {\n\t\tsession\n\t}\n}\n"
	named := func(name string) string {
		return "\trate_limit {\n\t\tzone " + name + " {\n\t\t\tlimit 5/1m\n\t\t}\n\t}\n"
	}
	trap := func(line string) string { return "https://a.test {\n\trate_limit {\n\t\t" + line + "\n\t}\n}\n" }
	for _, tt := range []struct{ name, input, msg, write string }{
		{"respond before it", ":9080 {\n\troute {\n\t\trespond ok\n" + limited + "\t}\n}\n", "never runs: respond before it", "above it in a route"},
		{"a proxy before it", ":9080 {\n\troute {\n\t\treverse_proxy 127.0.0.1:1\n" + limited + "\t}\n}\n", "never runs: reverse_proxy before it", "above it in a route"},
		{"files before it", ":9080 {\n\troute {\n\t\tfile_server\n" + limited + "\t}\n}\n", "never runs: file_server before it", "above it in a route"},
		{"a handle that answers before it", ":9080 {\n\troute {\n\t\thandle {\n\t\t\trespond ok\n\t\t}\n" + limited + "\t}\n}\n", "never runs: respond before it", "above it in a route"},
		{"order last", "{\n\torder rate_limit last\n}\n:9080 {\n" + limited + "\trespond ok\n}\n", "never runs: respond before it", "order for rate_limit"},
		{"order last behind a matcher", "{\n\torder rate_limit last\n}\n:9080 {\n" + limited + "\treverse_proxy /api/* 127.0.0.1:1\n}\n", "reverse_proxy before this handler answers, and nothing behind it does", "order for rate_limit"},
		{"an upstream in place of another's answer", ":9080 {\n\trate_limit {\n\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t\tcount status 401 hold\n\t\t}\n\t}\n\treverse_proxy 127.0.0.1:1 {\n\t\t@denied status 4xx\n\t\thandle_response @denied {\n\t\t\treverse_proxy 127.0.0.1:2\n\t\t}\n\t}\n}\n", "where an upstream answers 401, handle_response asks another upstream", "copy_response"},
		{"handle_errors", ":9080 {\n\trespond ok\n\thandle_errors {\n" + limited + "\t}\n}\n", "in handle_errors", "outside of handle_errors"},
		{"trap /*", trap("trap /*"), "every request is one into the trap", "trap /.env"},
		{"trap path *", trap("trap path *"), "every request is one into the trap", "trap /.env"},
		{"exempt /*", inDirective("exempt /*\n\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t}"), "every request is exempt", "exempt /health"},
		{"exempt all addresses", inDirective("exempt 0.0.0.0/0 ::/0\n\t\tzone login {\n\t\t\tlimit 5/1m\n\t\t}"), "every request is exempt", "exempt /health"},
		{"limits of two windows", inZone("limit 100/1m\n\t\t\tlimit 50/1h"), "100/1m is never reached, because 50/1h", "only limit 50/1h;"},
		{"limits of one window", inZone("limit 5/1m\n\t\t\tlimit 9/1m"), "9/1m is never reached, because 5/1m", "only limit 5/1m;"},
		{"buckets", inZone("limit 5/1m burst 5\n\t\t\tlimit 9/1m burst 9"), "is never reached, because 5/1m burst 5", "only limit 5/1m burst 5;"},
		{"limits of a tier", "{\n\trate_limit {\n\t\ttier a {\n\t\t\tlimit 5/1m\n\t\t\tlimit 9/1m\n\t\t}\n\t}\n}\n" + inZone("tier {header.X-A} a"), `tier "a": limit: 9/1m is never reached`, "only limit 5/1m;"},
		{"names in another case", "http://a.test {\n" + named("Login") + "}\nhttp://b.test {\n" + named("login") + "}\n", "only in case", "one name for both"},
		{"a challenge on POST", session + inZone("match POST /api/*\n\t\t\tper client\n\t\t\tlimit 5/1m\n\t\t\ton_exceeded challenge"), "nobody is ever challenged", "on_exceeded refuse"},
		{"a field of nobody", "{\n\tservers {\n\t\tclient_ip_headers CF-Connecting-IP\n\t}\n}\n" + inZone("limit 5/1m"), "client_ip_headers has no effect", "trusted_proxies static"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			warnings, err := load(t, tt.input)
			if err != nil {
				t.Fatal(err)
			}
			found := slices.DeleteFunc(slices.Clone(warnings), func(w warning) bool {
				return !strings.Contains(w.Msg, tt.msg) || !strings.Contains(w.Write, tt.write)
			})
			if len(found) != 1 {
				t.Errorf("warned of %+v, want once %q with %q to write", warnings, tt.msg, tt.write)
			}
		})
	}
	for name, input := range map[string]string{
		"answers to some before it":   ":9080 {\n\troute {\n\t\trespond /health ok\n" + limited + "\t\trespond ok\n\t}\n}\n",
		"files that pass on":          ":9080 {\n\troute {\n\t\tfile_server {\n\t\t\tpass_thru\n\t\t}\n" + limited + "\t\trespond ok\n\t}\n}\n",
		"authentication before it":    ":9080 {\n\troute {\n\t\tforward_auth 127.0.0.1:1 {\n\t\t\turi /verify\n\t\t}\n" + limited + "\t\trespond ok\n\t}\n}\n",
		"another handle":              ":9080 {\n\thandle /a/* {\n\t\trespond ok\n\t}\n\thandle {\n" + limited + "\t\trespond ok\n\t}\n}\n",
		"a redirection before it":     ":9080 {\n\tredir /old /new\n" + limited + "\trespond ok\n}\n",
		"two sites":                   "http://a.test {\n\trespond ok\n}\nhttp://b.test {\n" + limited + "\trespond ok\n}\n",
		"limits of different purpose": inZone("limit 10/1s\n\t\t\tlimit 100/1m\n\t\t\tlimit 1000/1h"),
		"limits of different kinds":   inZone("limit 100/1m burst 200\n\t\t\tlimit 50/1h"),
		"a challenge on pages":        strings.Replace(session+inZone("match GET POST /shop/*\n\t\t\tper client\n\t\t\tlimit 5/1m\n\t\t\ton_exceeded challenge"), ":9080", "https://a.test", 1),
		"commas in paths":             inZone("match /a,b /c\n\t\t\tlimit 5/1m"),
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := load(t, input)
			if err != nil || len(warnings) > 0 {
				t.Errorf("error %v, warnings %+v", err, warnings)
			}
		})
	}
}

// A config that is right is not warned of.
func TestGoodConfigsAreNotWarnedOf(t *testing.T) {
	noData(t)
	for _, input := range []string{
		inDirective("exempt path /login {http.vars.prefix}/x %2F\n\t\tzone a {\n\t\t\tlimit 5/1m\n\t\t}"),
		inZone("match POST /*\n\t\t\tmatch host *.example.com\n\t\t\tlimit 5/1m"),
		inZone("per everyone\n\t\t\tlimit 5/1m"),
		inZone("key static\n\t\t\tevents 5\n\t\t\twindow 1m"),
		inZone("per key {client_ip}\n\t\t\tipv6_prefix 56\n\t\t\tlimit 5/1m"),
		inZone("per key {time.now.year}{host}\n\t\t\tlimit 5/1m"),
	} {
		warnings, err := load(t, input)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s\nerror %v, warnings %+v", input, err, warnings)
		}
	}
}

// Examples load without warnings. They are for a machine without a domain, so they
// use plain HTTP, and warnings of that are expected.
func TestExamplesAreNotWarnedOf(t *testing.T) {
	noData(t)
	t.Setenv("SERVICE_TOKEN", "the-token-of-the-services")
	expected := map[string]func(w warning) bool{
		"migrate-from-mholt.Caddyfile": func(w warning) bool { // a config of another module, as it stands
			return strings.HasPrefix(w.Msg, "distributed and storage have no effect") || w.Write == "match GET /*"
		},
		"mholt-before.Caddyfile": func(w warning) bool { return w.Write == "match POST /login" },
		"applications.Caddyfile": isOfApplications,
		"methods.Caddyfile":      isOfMethods,
	}
	for path, config := range exampleFiles(t) {
		warnings, err := load(t, config)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		isExpected := expected[filepath.Base(path)]
		for _, w := range warnings {
			if !strings.Contains(w.Msg, "plain HTTP") && (isExpected == nil || !isExpected(w)) {
				t.Errorf("%s: warned of %+v", path, w)
			}
		}
	}
}

// isOfApplications reports whether a warning is of what clients choose, where the client is an application
// of the operator's. The page says that it is expected.
func isOfApplications(w warning) bool {
	return strings.HasPrefix(w.Msg, "key: {http.request.header.X-User} is what the client sends") ||
		strings.HasPrefix(w.Msg, "cost: {http.request.header.X-Units} is what the client writes")
}

// isOfMethods reports whether a warning is of operations that clients name. The page says that it is expected.
func isOfMethods(w warning) bool {
	return strings.HasPrefix(w.Msg, "cost: {http.rate_limit.json.operationName} is what the client writes: without it")
}

// isExpectedInDocs reports whether a page shows a config of another module as it stands, or says that
// Caddy warns of it.
func isExpectedInDocs(name string, w warning) bool {
	return strings.HasSuffix(name, "recipes/applications.md") && isOfApplications(w) || strings.HasSuffix(name, "recipes/methods.md") && isOfMethods(w) || strings.HasSuffix(name, "migrate/mholt.md") && (strings.HasPrefix(w.Msg, "distributed and storage have no effect") || strings.HasPrefix(w.Write, "match "))
}

// The configs in the documentation are not warned of.
func TestSamplesOfTheDocsAreNotWarnedOf(t *testing.T) {
	noData(t)
	for _, name := range []string{"SERVICE_TOKEN", "PG_PASSWORD", "REDIS_PASSWORD", "TURNSTILE_SECRET", "NTFY_TOKEN"} {
		t.Setenv(name, "the-secret-of-the-samples")
	}
	loaded := 0
	for _, pattern := range []string{"../README.md", "../docs/*.md", "../docs/*/*.md"} {
		for _, name := range glob(t, pattern) {
			for line, sample := range samplesIn(readSample(t, name)) {
				if _, isJSON := jsonSample(sample); isJSON {
					continue
				}
				warnings, err := load(t, withFiles(sample))
				if err != nil {
					t.Errorf("%s:%d: %v", name, line, err)
				}
				for _, w := range warnings {
					if !strings.Contains(w.Msg, "plain HTTP") && !isExpectedInDocs(name, w) {
						t.Errorf("%s:%d: warned of %+v", name, line, w)
					}
				}
				loaded++
			}
		}
	}
	if loaded == 0 {
		t.Error("there are no samples")
	}
}
