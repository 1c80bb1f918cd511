package caddytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// inZone returns a Caddyfile whose line 4 is in a zone.
func inZone(lines string) string {
	return ":9080 {\n\trate_limit {\n\t\tzone login {\n\t\t\t" + lines + "\n\t\t}\n\t}\n}\n"
}

// inDirective returns a Caddyfile whose line 3 is in the directive.
func inDirective(lines string) string { return ":9080 {\n\trate_limit {\n\t\t" + lines + "\n\t}\n}\n" }

// inSite returns a Caddyfile whose line 2 is in a site.
func inSite(lines string) string { return ":9080 {\n\t" + lines + "\n}\n" }

// inOption returns a Caddyfile whose line 3 is in the global option.
func inOption(lines string) string { return "{\n\trate_limit {\n\t\t" + lines + "\n\t}\n}\n" }

// What people write who know another program, or guess: the error says what to
// write here, and in which line.
func TestMistakesAreToldWhatToWrite(t *testing.T) {
	noData(t)
	for _, block := range []struct {
		in    func(string) string
		line  int
		cases [][2]string
	}{
		{inZone, 4, [][2]string{
			{"limit 5", `limit: a window is missing in "5": expected how many pass in which time, such as 5/1m; the syntax is limit <n>/<duration>`},
			{"limit 5 1m", `limit: a window is missing in "5": expected how many pass in which time, such as 5/1m; the syntax is limit <n>/<duration>`},
			{"limit 5/60", `limit: window must be a duration such as 10s, 1m, 24h or 1d, got "60"; the syntax is limit <n>/<duration>`},
			{"limit 5rps", `limit: a window is missing in "5rps": expected how many pass in which time, such as 5/1m; the syntax is limit <n>/<duration>`},
			{"limit 5 rps", `limit: a window is missing in "5": expected how many pass in which time, such as 5/1m; the syntax is limit <n>/<duration>`},
			{"limit rate=10r/s", `limit: amount must be a whole number, got "rate=10"; the syntax is limit <n>/<duration>`},
			{"limit 5-M", `limit: a window is missing in "5-M": expected how many pass in which time, such as 5/1m; the syntax is limit <n>/<duration>`},
			{"limit 1k/1m", `limit: amount must be a whole number, got "1k"; the syntax is limit <n>/<duration>`},
			{"limit 1,000/1m", `limit: amount must be a whole number, got "1,000": write limit 1_000/1m`},
			{"limit 5/month", "only fixed limits have months, as these have 28 to 31 days: write limit 5/month fixed, or 5/30d"},
			{"limit 5/1mo", `limit: window must be a duration such as 10s, 1m, 24h or 1d, got "1mo"; the syntax is limit <n>/<duration>`},
			{"limit 5.5/1m", `limit: amount must be a whole number, got "5.5": write limit 330/1h`},
			{"limit five/1m", `limit: amount must be a whole number, got "five"; the syntax is limit <n>/<duration>`},
			{"limit 5/10 apples", `limit: window must be a duration such as 10s, 1m, 24h or 1d, got "10"; the syntax is limit <n>/<duration>`},
			{"limit 10r/s burst=20", `limit: got "burst=20", where nothing more is expected: write limit 10r/s burst 20`},
			{"limit 10r/s burst 20 nodelay", `limit: got "nodelay", where nothing more is expected; the syntax is limit <n>/<duration>`},
			{"limit 5/1m sliding_window", `limit: got "sliding_window", where nothing more is expected; the syntax is limit <n>/<duration>`},
			{"limit 5/1m token-bucket", `limit: got "token-bucket", where nothing more is expected; the syntax is limit <n>/<duration>`},
			{"limit 5/1m leaky_bucket", `limit: got "leaky_bucket", where nothing more is expected; the syntax is limit <n>/<duration>`},
			{"limit 5/1m Burst 10", `limit: got "Burst", where nothing more is expected; the syntax is limit <n>/<duration>`},
			{"limit 5/1m 10/1h", `limit: got "10/1h", where nothing more is expected; the syntax is limit <n>/<duration>`},
			{"limit 5/1m per ip", `limit: got "per", where nothing more is expected; the syntax is limit <n>/<duration>`},
			{"rate 5/1m", "write limit 5/1m"},
			{"requests 5", "unrecognized subdirective 'requests'"},
			{"max_events 5", "unrecognized subdirective 'max_events'"},
			{"burst 10", "unrecognized subdirective 'burst'"},
			{"window 60", `invalid window duration '60': time: missing unit in duration "60": expected a duration such as 1m`},
			{"window 1 minute", `invalid window duration '1': time: missing unit in duration "1": expected a duration such as 1m`},
			{"events 5/1m", "expected a whole number"},
			{"matcher path /login", "unrecognized subdirective 'matcher': did you mean match?"},
			{"path /login", "unrecognized subdirective 'path': did you mean match?"},
			{"method POST", "unrecognized subdirective 'method'"},
			{"/login", "unrecognized subdirective '/login'"},
			{"@login", "unrecognized subdirective '@login'"},
			{"match login", "expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"match url /login", "failed to parse match: getting matcher module 'url': module not registered: http.matchers.url: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"match path_regex ^/login", "failed to parse match: getting matcher module 'path_regex': module not registered: http.matchers.path_regex: did you mean path_regexp?"},
			{"match hots example.com", "did you mean host?"},
			{"match example.com", "failed to parse match: getting matcher module 'example.com': module not registered: http.matchers.example.com: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"match https://example.com/login", "failed to parse match: getting matcher module 'https://example.com/login': module not registered: http.matchers.https://example.com/login: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"per remote_ip", "write per ip"},
			{"per {client_ip}", "write per ip"},
			{"per {remote_host}", "write per ip"},
			{"per IP", `per: expected ip, network, asn, country, domain, everyone, client, api_key or key, got "IP"; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per address", `per: expected ip, network, asn, country, domain, everyone, client, api_key or key, got "address"; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per ip 24", `per: got "24", where nothing more is expected; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per subnet", `per: expected ip, network, asn, country, domain, everyone, client, api_key or key, got "subnet"; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per all", `per: expected ip, network, asn, country, domain, everyone, client, api_key or key, got "all"; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per session", `per: expected ip, network, asn, country, domain, everyone, client, api_key or key, got "session"; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per user", `per: expected ip, network, asn, country, domain, everyone, client, api_key or key, got "user"; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per header X-Tenant", `per: expected ip, network, asn, country, domain, everyone, client, api_key or key, got "header"; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per host", `per: expected ip, network, asn, country, domain, everyone, client, api_key or key, got "host"; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per {http.request.host}", "write per key {http.request.host}"},
			{"per key header X-Tenant", `per: got "X-Tenant", where nothing more is expected; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"per key {host} {path}", `per: got "{http.request.uri.path}", where nothing more is expected; the syntax is per ip|network|asn|country|domain|everyone|client|api_key or per key <value>`},
			{"exempt 10.0.0.0/8", "unrecognized subdirective 'exempt': write it into the directive rate_limit of a site, beside its zones"},
			{"headers legacy", "unrecognized subdirective 'headers': write it into the directive rate_limit of a site, beside its zones"},
			{"store sqlite x.db", "write it into the global option"},
			{"zone other {\n\t\t\tlimit 5/1m\n\t\t}", "unrecognized subdirective 'zone': write it into the directive rate_limit of a site, beside its zones"},
			{"respond ok", "unrecognized subdirective 'respond'"},
			{"limt 5/1m", "did you mean limit?"},
			{"cost /export 10", `cost: must be a whole number from 0, or a placeholder that holds one, got "/export"; the syntax is cost <n>|<placeholder> [<matcher...>]`},
			{"match POST /login, /signin", "write POST /login /signin"},
			{"match POST /login,/signin", "write POST /login /signin"},
			{"exempt 10.0.0.1, 10.0.0.2", "unrecognized subdirective 'exempt': write it into the directive rate_limit of a site, beside its zones"},
			{"count status 401, 403", `count: status: must be from 200 to 599, or a class from 2xx to 5xx, got "401,"; the syntax is count status <status...> [hold [read_body [<size>]]] or count when <answer...> [hold [read_body [<size>]]]`},
			{"count status 401,403", `count: status: must be from 200 to 599, or a class from 2xx to 5xx, got "401,403"; the syntax is count status <status...> [hold [read_body [<size>]]] or count when <answer...> [hold [read_body [<size>]]]`},
			{"limit 5/1m, 100/1h", `limit: window must be a duration such as 10s, 1m, 24h or 1d, got "1m,"; the syntax is limit <n>/<duration>`},
			{"limit 5/1m and 100/1h", `limit: got "and", where nothing more is expected; the syntax is limit <n>/<duration>`},
			{"events 50 window 1s burst 70", "unrecognized subdirective 'burst'"},
			{"average 100", "unrecognized subdirective 'average'"},
			{"period 1m", "unrecognized subdirective 'period'"},
			{"maxretry 5", "unrecognized subdirective 'maxretry'"},
			{"findtime 10m", "unrecognized subdirective 'findtime'"},
			{"bantime 1h", "unrecognized subdirective 'bantime'"},
			{"rate=10r/s", "unrecognized subdirective 'rate=10r/s': write limit 10r/s"},
			{"rate 10r/s", "unrecognized subdirective 'rate': write limit 10r/s"},
			{"match_path /login", "unrecognized subdirective 'match_path'"},
			{"limit_req zone=login burst=20", "unrecognized subdirective 'limit_req'"},
			{"cost ten", `cost: must be a whole number from 0, or a placeholder that holds one, got "ten"; the syntax is cost <n>|<placeholder> [<matcher...>]`},
			{"scope own", `scope: expected shared or site, got "own"; the syntax is scope shared|site`},
		}},
		{inDirective, 3, [][2]string{
			{"zone {\n\t\t\tlimit 5/1m\n\t\t}", "the name is missing: write zone login {"},
			{"zone a\n\t\tlimit 5/1m", "write zone a {, limit 5/1m and }"},
			{"zone a limit 5/1m", "write zone a {, and what belongs to it on lines of their own"},
			{"zone a /login {\n\t\t\tlimit 5/1m\n\t\t}", "write zone a {, and what belongs to it on lines of their own"},
			{"zones a {\n\t\t\tlimit 5/1m\n\t\t}", "unrecognized subdirective 'zones': did you mean zone?"},
			{"limit 5/1m", "unrecognized subdirective 'limit': write it into a zone of the directive rate_limit"},
			{"per ip", "unrecognized subdirective 'per': write it into a zone of the directive rate_limit"},
			{"key {remote_host}", "write it into a zone"},
			{"match path /login", "unrecognized subdirective 'match': write it into a zone of the directive rate_limit"},
			{"whitelist 10.0.0.0/8", "unrecognized subdirective 'whitelist': expected zone, exempt, trap, headers, page, jitter, log_key, log_ip, disable_metrics, sweep_interval, distributed or storage"},
			{"tier gold {\n\t\t\tlimit 5/1m\n\t\t}", "unrecognized subdirective 'tier': write it into a zone of the directive rate_limit or the global option rate_limit at the top of the file"},
			{"session", "write it into the global option"},
			{"log_key true", `log_key: got "true", where nothing more is expected; the syntax is log_key`},
			{"reverse_proxy 127.0.0.1:3000", "is a } missing above?"},
			{"jitter 20%", "write a fraction such as 0.2"},
			{"exempt ip 192.0.2.1", "exempt: getting matcher module 'ip': module not registered: http.matchers.ip: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"exempt 192.168.0.0/99", "a network, such as 192.0.2.0/24"},
			{"exempt 192.168.*", "a network, such as 192.0.2.0/24"},
			{"exempt !path /api/*", "expected not path /login, or not and another matcher"},
			{"exempt 10.20.30.40/", "a network, such as 192.0.2.0/24"},
			{"exempt 192.168.10.0/99", "a network, such as 192.0.2.0/24"},
			{"exempt *.rss", "*.rss also exempts /login.rss, which some backends take for /login: write exempt /static/*; with"},
			{"exempt 10.0.0.1, 10.0.0.2", "a network, such as 192.0.2.0/24"},
			{"zone=login:10m rate=5r/s", "unrecognized subdirective 'zone=login:10m': write zone login {"},
			{"trap wp-login.php", "trap: getting matcher module 'wp-login.php': module not registered: http.matchers.wp-login.php: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"trap .env", "trap: getting matcher module '.env': module not registered: http.matchers..env: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"trap ban 1h wp-login.php xmlrpc.php", "trap: getting matcher module 'wp-login.php': module not registered: http.matchers.wp-login.php: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"exempt localhost", "exempt: getting matcher module 'localhost': module not registered: http.matchers.localhost: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"exempt example.com", "exempt: getting matcher module 'example.com': module not registered: http.matchers.example.com: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
			{"trap ban path /wp-login.php", `trap: ban: must be a duration above zero, such as 100ms, 10m or 1d, got "path"; the syntax is trap [ban <duration>] <matcher...>`},
			{"trap 24h path /wp-login.php", "trap: getting matcher module '24h': module not registered: http.matchers.24h: expected a path, such as /login, a network, such as 192.0.2.0/24, or a matcher"},
		}},
		{inSite, 2, [][2]string{
			{"rate_limit 5/1m", "write rate_limit {, zone login {, limit 5/1m, } and }"},
			{"rate_limit /login 5/1m", "write rate_limit {, zone login {, limit 5/1m, } and }"},
			{"rate_limit 10r/s", "limit 10r/s"},
			{"rate_limit {remote.host} 10r/m", "wrong argument count or unexpected line ending after '{remote.host}': rate_limit takes a matcher and a block: the syntax is rate_limit [<matcher>] {"},
			{"rate_limit /login {header.X-Tenant} 0.5r/s 10000 429", "wrong argument count or unexpected line ending after '{http.request.header.X-Tenant}': rate_limit takes a matcher and a block: the syntax is rate_limit [<matcher>] {"},
			{"rate_limit on", "rate_limit takes a matcher and a block"},
			{"rate_limit login {\n\t}", "rate_limit takes a matcher and a block"},
			{"rate_limit zone a {\n\t\tlimit 5/1m\n\t}", "wrong argument count or unexpected line ending after 'zone': rate_limit takes a matcher and a block: the syntax is rate_limit [<matcher>] {"},
			{"rate_limit path /login {\n\t}", "wrong argument count or unexpected line ending after 'path': rate_limit takes a matcher and a block: the syntax is rate_limit [<matcher>] {"},
		}},
		{inOption, 3, [][2]string{
			{"zone a {\n\t\t\tlimit 5/1m\n\t\t}", "write it into the directive rate_limit of a site"},
			{"limit 5/1m", `unrecognized option "limit": write it into a zone of the directive rate_limit`},
			{"exempt 10.0.0.0/8", "write it into the directive rate_limit of a site"},
			{"database /var/lib/x.db", `unrecognized option "database"`},
			{"store /var/lib/x.db", "write store sqlite /var/lib/x.db"},
			{"max_keyes 5", "did you mean max_keys?"},
			{"ignoreip 127.0.0.1/8", `unrecognized option "ignoreip"`},
			{"limit_conn addr 10", `unrecognized option "limit_conn"`},
			{"ban AS64496", `ban: expected after, got "AS64496"; the syntax is ban after <n> violations in <duration> for <duration> [up to <duration>]`},
			{"ban after 5 violations in 10m for forever", `ban: for: must be a duration above zero, such as 100ms, 10m or 1d, got "forever"; the syntax is ban after <n> violations in <duration> for <duration> [up to <duration>]`},
		}},
	} {
		for _, tt := range block.cases {
			t.Run(tt[0], func(t *testing.T) {
				want := fmt.Sprintf(", at Caddyfile:%d", block.line)
				_, _, err := adaptCaddyfile([]byte(block.in(tt[0])), nil)
				if err == nil {
					t.Fatal("accepted")
				}
				if !strings.Contains(err.Error(), tt[1]) || !strings.HasSuffix(err.Error(), want) || strings.Count(err.Error(), ", at ") != 1 {
					t.Errorf("error is\n%v\nwant in it %q and %q at its end", err, tt[1], want)
				}
			})
		}
	}
}

// Spellings that can mean one thing only are as good as ours.
func TestOtherSpellingsMeanTheSame(t *testing.T) {
	for _, same := range []struct {
		as        string
		spellings []string
		in        func(string) string
	}{
		{"limit 10/1s", []string{"limit 10r/s", "limit 10/s", "limit 10/sec", "limit 10/second", "limit 10 per second", "limit 10req/s"}, inZone},
		{"limit 10/1m", []string{"limit 10r/m", "limit 10/m", "limit 10/min", "limit 10/minute", "limit 10/1min", "limit 10/1 minute",
			"limit 10 / 1m", "limit 10 /1m", "limit 10/ 1m", "limit 10 per 1m", "limit 10 requests per minute", "limit 10 requests/minute", "limit 10/60s", "limit 10 per 60 seconds"}, inZone},
		{"limit 10/1h burst 5", []string{"limit 10/hour burst 5", "limit 10 per hour burst 5", "limit 10r/h burst 5"}, inZone},
		{"limit 1000/24h", []string{"limit 1_000/1d", "limit 1000/day", "limit 1000 per day"}, inZone},
		{"limit 10/7d", []string{"limit 10/week", "limit 10/1w", "limit 10 per 1 week"}, inZone},
		{"exempt client_ip 192.168.0.0/16", []string{"exempt 192.168.0.0/16"}, inDirective},
		{"exempt client_ip ::1 192.0.2.1", []string{"exempt ::1 192.0.2.1"}, inDirective},
		{"exempt client_ip private_ranges", []string{"exempt private_ranges"}, inDirective},
		{"trap ban 1h client_ip 192.0.2.1", []string{"trap ban 1h 192.0.2.1"}, inDirective},
	} {
		want := adaptRaw(t, same.in(same.as))
		for _, spelling := range same.spellings {
			t.Run(spelling, func(t *testing.T) {
				if got := adaptRaw(t, same.in(spelling)); !bytes.Equal(got, want) {
					t.Errorf("%q is adapted to\n%s\nwant as %q\n%s", spelling, got, same.as, want)
				}
			})
		}
	}
}

// A cure that is a line loads in the place of what was wrong, and means what the words behind it say.
func TestCuresOfMatchersLoad(t *testing.T) {
	noData(t)
	for wrong, right := range map[string]string{
		"not /api/*":      "not path /api/*",
		"not /api/* /b":   "not path /api/* /b",
		"not post":        "not method POST",
		"not GET POST":    "not method GET POST",
		"not *.png *.css": "not path *.png *.css",
		"*.php":           "path *.php",
		"*.php *.asp":     "path *.php *.asp",
	} {
		adapt := func(match string) error {
			_, _, err := adaptCaddyfile([]byte(inZone("match "+match+"\n\t\t\tlimit 5/1m")), nil)
			return err
		}
		err := adapt(wrong)
		if err == nil || !strings.Contains(err.Error(), ": write "+right+", at ") {
			t.Errorf("match %s: got %v, want: write %s", wrong, err, right)
		}
		if err := adapt(right); err != nil {
			t.Errorf("the cure of match %s: %v", wrong, err)
		}
	}
	for _, right := range []string{`not "{http.request.uri.path} == '/a'"`, "not {\n\t\t\t\tpath /a\n\t\t\t}", "not path /a"} {
		if _, _, err := adaptCaddyfile([]byte(inZone("match "+right+"\n\t\t\tlimit 5/1m")), nil); err != nil && strings.Contains(err.Error(), "write ") {
			t.Errorf("match %s: %v", right, err)
		}
	}
}

func adaptRaw(t *testing.T, input string) json.RawMessage {
	t.Helper()
	raw, _, err := adaptCaddyfile([]byte(input), nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
