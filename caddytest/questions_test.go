package caddytest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// questionCase is a config and what it is warned of; "" if nothing, "error: …" if it doesn't load.
type questionCase struct{ name, input, want string }

// zone returns a rate_limit directive with a zone.
func limiting(matcher, lines string) string {
	return "rate_limit " + matcher + " {\n\tzone z {\n\t\t" + strings.ReplaceAll(lines, "; ", "\n\t\t") + "\n\t}\n}\n"
}

// of returns a site with directives, over HTTPS.
func siteOf(parts ...string) string {
	return "https://a.test {\n" + strings.Join(parts, "\n") + "\n}\n"
}

// global returns the global option rate_limit before a site.
func globally(lines, site string) string {
	return "{\n\trate_limit {\n\t\t" + strings.ReplaceAll(lines, "; ", "\n\t\t") + "\n\t}\n}\n" + site
}

const (
	toBackend  = "reverse_proxy 127.0.0.1:3000"
	inOrder    = "{\n\torder rate_limit before reverse_proxy\n}\n"
	largeLimit = "limit 300/1m"
	trustingIn = "{\n\tservers {\n\t\ttrusted_proxies static %s\n\t\ttrusted_proxies_strict\n\t}\n}\n"
)

// Can a request reach it?
var reachCases = []questionCase{
	{"login behind a handle", inOrder + siteOf("handle /login {\n"+toBackend+"\n}", limiting("", "match POST /login; limit 5/1m"), toBackend), "the zone never sees POST /login: reverse_proxy before it answers them"},
	{"login behind a respond", siteOf("route {\nrespond /login no\n" + limiting("", "match /login; limit 5/1m") + toBackend + "\n}"), "the zone never sees /login: respond before it answers them"},
	{"login behind a folder", inOrder + siteOf("handle /app/* {\n"+toBackend+"\n}", limiting("", "match POST /app/login; limit 5/1m"), toBackend), "the zone never sees POST /app/login"},
	{"files of a folder", siteOf("route {\nfile_server /static/*\n" + limiting("", "match /static/largeLimit/*; limit 5/1m") + toBackend + "\n}"), "file_server before it answers them"},
	{"another path in a handle", siteOf("handle /app/* {\n" + limiting("", "match POST /login; limit 5/1m") + toBackend + "\n}"), "the route around it doesn't match them"},
	{"another path in the directive", siteOf(limiting("/api/*", "match POST /login; limit 5/1m"), toBackend), "the route around it doesn't match them"},
	{"another host", siteOf(limiting("", "match host b.test; limit 5/1m"), toBackend), "the route around it doesn't match them"},
	{"another method", siteOf("@get method GET", "handle @get {\n"+limiting("", "match POST /login; limit 5/1m")+toBackend+"\n}"), "the route around it doesn't match them"},
	{"what not excludes", siteOf("@rest not path /login", "handle @rest {\n"+limiting("", "match /login; limit 5/1m")+toBackend+"\n}"), "the route around it doesn't match them"},
	{"handle_path removes a prefix later", siteOf(limiting("", "match POST /login; limit 5/1m"), "handle_path /app/* {\n"+toBackend+"\n}"), "nothing behind this handler answers POST /login"},
	{"only files answer", siteOf(limiting("", "match POST /login; limit 5/1m"), "handle_path /app/* {\n"+toBackend+"\n}", "file_server"), "nothing behind this handler answers POST /login"},
	{"a zone of all and a proxy before it", inOrder + siteOf("handle /api/* {\n"+toBackend+"\n}", limiting("", largeLimit), toBackend), "the zone never sees /api/*: reverse_proxy before it answers them"},
	{"a puzzle in a matcher", globally("session", siteOf(limiting("/shop/*", "per client; limit 60/1m; on_exceeded challenge"), toBackend)), "the puzzle sends POST /.well-known/rate-limit/*"},
	{"a puzzle in a handle", globally("session", siteOf("handle /shop/* {\n"+limiting("", "per client; limit 60/1m; on_exceeded challenge")+toBackend+"\n}", "handle {\n"+toBackend+"\n}")), "the puzzle sends POST"},
	{"a dashboard of one path", siteOf("basic_auth {\nbob "+bobsHash+"\n}\nhandle /limits {\nrate_limit_dashboard\n}", toBackend), "rate_limit_dashboard: it never sees GET /limits/clients"},
	{"a dashboard of one method", siteOf("basic_auth {\nbob "+bobsHash+"\n}\n@get {\nmethod GET\npath /limits/*\n}\nrate_limit_dashboard @get {\nwritable\n}", toBackend), "rate_limit_dashboard: it never sees POST"},
	{"a list for some sites", globally("block_list https://lists.test/drop", siteOf(limiting("", largeLimit), toBackend)+"https://b.test {\n"+toBackend+"\n}\n"), "sites without rate_limit don't obey it: b.test"},
	{"rules for some sites", globally("rules_file /tmp/rules", siteOf(limiting("", largeLimit), toBackend)+"https://b.test {\nfile_server\n}\n"), "sites without rate_limit don't obey it: b.test"},
	{"a ban for some sites", globally("ban after 5 violations in 10m for 1h", siteOf(limiting("", "per client; limit 300/1m"), toBackend)+"https://b.test {\n"+toBackend+"\n}\n"), "sites without rate_limit don't obey it: b.test"},
	{"a zone of exempt requests", siteOf("rate_limit {\nexempt /api/*\nzone z {\nmatch POST /api/login\nlimit 5/1m\n}\n}", toBackend), "match: all requests of the zone are in exempt /api/*"},
	{"a zone of trapped requests", siteOf("rate_limit {\ntrap /wp-login.php\nzone z {\nmatch POST /wp-login.php\nlimit 5/1m\n}\n}", toBackend), "match: all requests of the zone are in trap /wp-login.php"},
	{"a trap elsewhere", siteOf("handle /shop/* {\nrate_limit {\ntrap /.env\nzone z {\n" + largeLimit + "\n}\n}\n" + toBackend + "\n}"), "trap: it never sees /.env: the route around it"},
	{"a cost of others' requests", siteOf(limiting("", "match /api/*; cost 10 /export/*; "+largeLimit), toBackend), "cost: the zone never has /export/*"},
	{"a dashboard for everything", siteOf("basic_auth {\nbob "+bobsHash+"\n}", "rate_limit_dashboard", toBackend), "rate_limit_dashboard: it answers all requests of its site: reverse_proxy behind it"},
	{"tiers of nobody", globally("tier free {; limit 60/1m; }", siteOf(limiting("", largeLimit), toBackend)), "tier: no zone has tiers or tier"},
	{"API keys of nobody", globally("api_keys {; from bearer; }", siteOf(limiting("", largeLimit), toBackend)), "api_keys: no zone asks for one"},
	{"notifications of bans that don't occur", globally("notify https://hooks.test {; on ban; }", siteOf(limiting("", largeLimit), toBackend)), "notify: on ban: no client is ever banned"},
	{"notifications of quotas of addresses", globally("notify https://hooks.test {; on quota; }", siteOf(limiting("", "limit 1000/24h fixed"), toBackend)), "notify: on quota: no key has a fixed limit"},
	{"notifications of quotas that slide", globally("notify https://hooks.test {; on degraded quota; }", siteOf(limiting("", "per everyone; limit 1000/24h"), toBackend)), "notify: on quota: no key has a fixed limit"},

	{"notifications of bans", globally("ban after 5 violations in 10m for 1h; notify https://hooks.test {; on ban; }", siteOf(limiting("", "per client; limit 300/1m"), toBackend)), ""},
	{"notifications of bans in a zone", globally("notify https://hooks.test {; on ban; }", siteOf(limiting("", "per client; ban after 5 violations in 10m for 1h; limit 300/1m"), toBackend)), ""},
	{"notifications of bans by a trap", globally("notify https://hooks.test {; on ban degraded; }", siteOf("rate_limit {\ntrap ban 1h /.env\n}", toBackend)), ""},
	{"notifications of quotas", globally("notify https://hooks.test {; on quota; }", siteOf(limiting("", "per everyone; limit 1000/24h fixed"), toBackend)), ""},
	{"notifications of quotas of a tier", globally("notify https://hooks.test {; on quota; }; tier free {; limit 1000/month fixed; }; api_keys {; from bearer; }", siteOf(limiting("", "per api_key; tiers"), toBackend)), ""},
	{"notifications of everything", globally("notify https://hooks.test", siteOf(limiting("", largeLimit), toBackend)), ""},
	{"an exemption in a zone", siteOf("rate_limit {\nexempt /api/health\nzone z {\nmatch /api/*\n"+largeLimit+"\n}\n}", toBackend), ""},
	{"a cost in a zone", siteOf(limiting("", "match /api/*; cost 10 /api/export/*; "+largeLimit), toBackend), ""},
	{"a dashboard alone", siteOf("basic_auth {\nbob "+bobsHash+"\n}", "rate_limit_dashboard"), ""},
	{"login before a handle", siteOf("handle /login {\n"+toBackend+"\n}", limiting("", "match POST /login; limit 5/1m"), toBackend), ""},
	{"the same path in a handle", siteOf("handle /app/* {\n" + limiting("", "match POST /app/login; limit 5/1m") + toBackend + "\n}"), ""},
	{"a prefix that handle_path removes before", siteOf("handle_path /app/* {\n" + limiting("", "match POST /login; limit 5/1m") + toBackend + "\n}"), ""},
	{"a whole path before handle_path", siteOf(limiting("", "match POST /app/login; limit 5/1m"), "handle_path /app/* {\n"+toBackend+"\n}"), ""},
	{"handle_path beside others", siteOf(limiting("", "match POST /login; limit 5/1m"), "handle_path /app/* {\n"+toBackend+"\n}\nhandle {\n"+toBackend+"\n}"), ""},
	{"a rewrite", siteOf("rewrite /login /app/login", limiting("", "match POST /login; limit 5/1m"), "handle /app/* {\n"+toBackend+"\n}"), ""},
	{"a puzzle for the whole site", globally("session", siteOf(limiting("", "match /shop/*; per client; limit 60/1m; on_exceeded challenge"), toBackend)), ""},
	{"a site that redirects", globally("block_list https://lists.test/drop", siteOf(limiting("", largeLimit), toBackend)+"https://www.a.test {\nredir https://a.test{uri}\n}\n"), ""},
	{"a health check before it", siteOf("route {\nrespond /health ok\n" + limiting("", largeLimit) + toBackend + "\n}"), ""},
	{"two handles", siteOf("handle /api/* {\n" + toBackend + "\n}\nhandle {\n" + limiting("", largeLimit) + toBackend + "\n}"), ""},
	{"php", siteOf(limiting("", "match POST /wp-login.php; limit 5/1m"), "php_fastcgi 127.0.0.1:9000\nfile_server"), ""},
	{"a dashboard in a folder", siteOf("handle_path /limits/* {\nbasic_auth {\nbob "+bobsHash+"\n}\nrate_limit_dashboard {\nwritable\n}\n}", toBackend), ""},
}

const bobsHash = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG"

// exempting returns a site whose handler exempts requests.
func exempting(matcher string) string {
	return siteOf("rate_limit {\n\texempt "+matcher+"\n\tzone z {\n\t\t"+largeLimit+"\n\t}\n}\n", toBackend)
}

// allowing returns a site with a dashboard that anybody who meets a matcher may see.
func allowing(before, matcher string) string {
	return siteOf("route {\n" + before + "\nrate_limit_dashboard {\n\twritable\n\tallow " + matcher + "\n}\n}")
}

// Can the client choose it?
var choiceCases = []questionCase{
	{"a crawler by its name", exempting("header User-Agent *Googlebot*"), "exempt: {http.request.header.User-Agent} is what the client writes"},
	{"a whole user agent", exempting(`header User-Agent "Mozilla/5.0 (compatible; Googlebot/2.1)"`), "exempt: {http.request.header.User-Agent}"},
	{"a short word", exempting("header X-Internal 1"), "exempt: {http.request.header.X-Internal}"},
	{"a signature on any path", exempting("header X-Hub-Signature-256 *"), "exempt: {http.request.header.X-Hub-Signature-256}"},
	{"a webhook by a field that signs nothing", exempting("{\n\t\tendpoint POST /webhooks/*\n\t\theader X-Internal 1\n\t}"), "exempt: {http.request.header.X-Internal}"},
	{"a pattern", exempting("header_regexp X-Partner ^acme-"), "exempt: {http.request.header.X-Partner}"},
	{"an expression", exempting("expression `{header.X-Internal} == \"1\"`"), "exempt: {http.request.header.X-Internal}"},
	{"a function in an expression", exempting("expression `header({'X-Internal': '1'})`"), "exempt: {http.request.header.X-Internal}"},
	{"a query", exempting("query monitor=1"), "exempt: {http.request.uri.query}"},
	{"a cookie", exempting("vars {cookie.staff} yes"), "exempt: {http.request.cookie.staff}"},
	{"a field inside match not", siteOf(limiting("", "match not header User-Agent *bingbot*; "+largeLimit), toBackend), "match not: {http.request.header.User-Agent}"},
	{"a tier of a field", globally("tier free {; limit 60/1m; }; tier gold {; limit 600/1m; }", siteOf(limiting("", "tier {header.X-Plan} free"), toBackend)), "tier: {http.request.header.X-Plan} is what the client writes"},
	{"a tier of a cookie", globally("tier free {; limit 60/1m; }; tier gold {; limit 600/1m; }", siteOf(limiting("", "tier {cookie.plan} free"), toBackend)), "tier: {http.request.cookie.plan} is what the client writes"},
	{"a password as a key", siteOf(limiting("", "per key {header.Authorization}; "+largeLimit), toBackend), "another limit with every value that it guesses"},
	{"a key in another field", siteOf(limiting("", "per key {header.X-Api-Key}; "+largeLimit), toBackend), "another limit with every value that it guesses"},
	{"a cookie as a key", siteOf(limiting("", "per key {cookie.sid}; "+largeLimit), toBackend), "another limit with every value that it guesses"},
	{"a query as a key", siteOf(limiting("", "per key {query.token}; "+largeLimit), toBackend), "another limit with every ?x=1"},
	{"a key made of a field", siteOf("map {header.X-Tenant} {map.tenant} {\ndefault {header.X-Tenant}\n}", limiting("", "per key {map.tenant}; "+largeLimit), toBackend), "another limit with every value that it guesses"},
	{"an address and a field", siteOf(limiting("", "per key {client_ip}{header.User-Agent}; "+largeLimit), toBackend), "another limit with every value that it guesses"},
	{"settle by the request", siteOf(limiting("", "cost 100; settle {header.X-Tokens}; limit 9000/1m"), toBackend), "settle: {http.request.header.X-Tokens} is what the client writes"},
	{"cost without a bound", siteOf(limiting("", "cost {header.X-Batch}; "+largeLimit), toBackend), "cost: {http.request.header.X-Batch} is what the client writes"},
	{"a higher cost by a field of the body", siteOf(limiting("", "cost 20 vars {http.rate_limit.json.operationName} Export; cost 2; limit 600/1m"), toBackend), "cost: {http.rate_limit.json.operationName} is what the client writes: without it a request costs 2"},
	{"a higher cost by a field", siteOf(limiting("", "cost 20 header X-Mode heavy; limit 600/1m"), toBackend), "cost: {http.request.header.X-Mode} is what the client writes: without it a request costs 1"},
	{"a lower cost by a field", siteOf(limiting("", "cost 1 vars {http.rate_limit.json.operationName} List; cost 20; limit 600/1m"), toBackend), ""},
	{"a higher cost by a path", siteOf(limiting("", "cost 20 /export; limit 600/1m"), toBackend), ""},
	{"a cost of nothing", siteOf(limiting("", "cost 0 header X-Cheap 1; "+largeLimit), toBackend), "cost 0: {http.request.header.X-Cheap}"},
	{"allow by a method", allowing("", "method GET POST"), "error: everybody can send such a request"},
	{"allow by a method for an address", siteOf("@office client_ip 192.0.2.0/24\nhandle @office {\nrate_limit_dashboard {\nallow method GET POST\n}\n}"), ""},
	{"allow by a field for an address", siteOf("@office remote_ip 192.0.2.0/24\nhandle @office {\nrate_limit_dashboard {\nallow header X-User *\n}\n}"), ""},
	{"allow by a field for all addresses", siteOf("@all remote_ip 0.0.0.0/0 ::/0\nhandle @all {\nrate_limit_dashboard {\nallow header X-User *\n}\n}"), "error: {http.request.header.X-User} may have any value"},
	{"allow by a method for those with a password", allowing("basic_auth {\nbob "+bobsHash+"\n}", "method GET POST"), ""},
	{"allow by two stars", allowing("", "header X-User **"), "error: {http.request.header.X-User} may have any value"},
	{"allow by a pattern", allowing("", "header_regexp X-User ."), "error: {http.request.header.X-User} may have any value"},
	{"allow by an expression", allowing("", "expression `header({'X-User': '*'})`"), "error: {http.request.header.X-User} may have any value"},
	{"allow by a cookie", allowing("", "vars {cookie.admin} 1"), "error: {http.request.cookie.admin} may have any value"},
	{"allow by a cookie's field", allowing("", "header Cookie *admin=1*"), "error: {http.request.header.Cookie} may have any value"},
	{"allow by a variable of a field", allowing("vars who {header.X-User}", "vars who admin"), "error: {http.vars.who} depends on what the client has sent"},
	{"allow by a map of a field", allowing("map {header.X-User} {map.who} {\nadmin yes\ndefault no\n}", "vars {map.who} yes"), "error: {map.who} depends on what the client has sent"},
	{"allow by a field made of another", allowing("request_header X-User {header.X-Name}", "header X-User admin"), "error: {http.request.header.X-User} depends on what the client has sent"},
	{"allow by a field that is added to", allowing("request_header +X-User bob", "header X-User admin"), "error: {http.request.header.X-User} depends on what the client has sent"},
	{"allow by a query", allowing("", "query key=1"), "error: {http.request.uri.query} may have any value"},
	{"allow by a host", allowing("", "host a.test"), "error: everybody can send such a request"},
	{"allow by a path", allowing("", "path /limits/*"), "error: everybody can send such a request"},
	{"allow all addresses", allowing("", "client_ip 0.0.0.0/0"), "error: everybody can send such a request"},

	{"a verified crawler", exempting("verified_bot google"), ""},
	{"a secret", exempting("header X-Monitor 7f0c9a2b7d4e6f80aa"), ""},
	{"a secret of the environment", exempting("header X-Monitor {env.MONITOR_TOKEN}"), ""},
	{"a field and an address", exempting("{\n\t\theader X-Internal 1\n\t\tremote_ip 192.0.2.1\n\t}"), ""},
	{"variables that are made of one another", siteOf("route {\nvars a {http.vars.b}\nvars b {http.vars.a}\nrate_limit {\nexempt vars {http.vars.a} 1\nzone z {\n" + largeLimit + "\n}\n}\n" + toBackend + "\n}"), ""},
	{"a signed webhook", exempting("{\n\t\tendpoint POST /webhooks/*\n\t\theader Stripe-Signature *\n\t}"), ""},
	{"a path", exempting("/health"), ""},
	{"a key and a zone per address", siteOf("rate_limit {\nzone a {\nper key {header.Authorization}\n"+largeLimit+"\n}\nzone b {\nper ip\n"+largeLimit+"\n}\n}", toBackend), ""},
	{"a key behind authentication", siteOf("forward_auth 127.0.0.1:9091 {\nuri /verify\n}", strings.Replace(limiting("", "per key {header.Authorization}; "+largeLimit), "rate_limit", "rate_limit_user", 1), toBackend), ""},
	{"a host as a key", strings.Replace(siteOf(limiting("", "per key {host}; "+largeLimit), toBackend), "a.test", "a.test, https://b.test", 1), ""},
	{"the only host as a key", siteOf(limiting("", "per key {host}; "+largeLimit), toBackend), "key: {http.request.host} is the same for all visitors"},
	{"crawlers by their names, limited", siteOf(limiting("", "match header User-Agent *GPTBot*; "+largeLimit), toBackend), ""},
	{"a cost with a bound", siteOf(limiting("", "cost {header.X-Batch}; max_cost 50; "+largeLimit), toBackend), ""},
	{"a field that is removed before", siteOf("route {\nrequest_header -X-Internal\nrate_limit {\nexempt header X-Internal 1\nzone z {\n" + largeLimit + "\n}\n}\n" + toBackend + "\n}"), ""},
	{"allow a secret", allowing("", "header X-Token 7f0c9a2b7d4e6f80aa"), ""},
	{"allow an address", allowing("", "client_ip 192.0.2.0/24"), ""},
	{"allow a constant", allowing("@lan remote_ip 192.0.2.0/24\nvars @lan who admin", "vars who admin"), ""},
}

// Will it ever be set, or match?
var setCases = []questionCase{
	{"settle by resp", siteOf(limiting("", "cost 100; settle {resp.header.X-Tokens}; limit 9000/1m"), toBackend), "settle: {http.intercept.header.X-Tokens} is never set"},
	{"settle by a proxy that isn't there", siteOf(limiting("", "cost 100; settle {rp.header.X-Tokens}; limit 9000/1m"), "respond ok"), "settle: {http.reverse_proxy.header.X-Tokens} is never set"},
	{"settle by a variable of nobody", siteOf(limiting("", "cost 100; settle {vars.tokens}; limit 9000/1m"), toBackend), "settle: {http.vars.tokens} is never set"},
	{"a key by a variable of nobody", siteOf(limiting("", "per key {vars.tenant}; "+largeLimit), toBackend), "per key: {http.vars.tenant} is never set"},
	{"a match of a variable of nobody", siteOf(limiting("", "match vars tenant acme; "+largeLimit), toBackend), "match: {http.vars.tenant} is never set"},
	{"API keys in Authorization", globally("tier free {; limit 60/1m; }; api_keys {; from header Authorization; }", siteOf(limiting("", "per api_key; tiers"), toBackend)), "from: Authorization holds a word before the key"},
	{"API keys in its placeholder", globally("tier free {; limit 60/1m; }; api_keys {; from placeholder {http.request.header.Authorization}; }", siteOf(limiting("", "per api_key; tiers"), toBackend)), "from: Authorization holds a word before the key"},
	{"UK", globally("networks testdata/networks.mmdb", siteOf(limiting("", "match country UK; "+largeLimit), toBackend)), `country: no address is in "UK"`},
	{"EL in an exemption", globally("networks testdata/networks.mmdb", exempting("country EL DE")), `country: no address is in "EL"`},
	{"a code inside not", globally("networks testdata/networks.mmdb", siteOf(limiting("", "match not country XX; "+largeLimit), toBackend)), `country: no address is in "XX"`},
	{"a log of nothing", "{\n\tlog limits {\n\t\toutput file /tmp/limits.log\n\t\tinclude http.log.rate_limit\n\t}\n}\n" + siteOf(limiting("", largeLimit), toBackend), "a log includes http.log.rate_limit, which is never written"},
	{"an address of no name", siteOf(limiting("", "per key {http.request.remote_ip}; "+largeLimit), toBackend), "error: did you mean {http.vars.client_ip}?"},

	{"a notification to a variable that isn't set", globally("notify https://ntfy.test/{env.TALLY_TEST_UNSET}", siteOf(limiting("", largeLimit), toBackend)), "notify: {env.TALLY_TEST_UNSET} is empty"},
	{"a field of notifications that isn't set", globally("notify https://ntfy.test/ {; header Authorization {env.TALLY_TEST_UNSET}; }", siteOf(limiting("", largeLimit), toBackend)), "notify: {env.TALLY_TEST_UNSET} is empty"},
	{"a field of notifications that is set", globally("notify https://ntfy.test/ {; header Authorization {env.PATH}; }", siteOf(limiting("", largeLimit), toBackend)), ""},
	{"a certificate of nobody", siteOf(limiting("", "per key {http.request.tls.client.subject}; "+largeLimit), toBackend), "per key: {http.request.tls.client.subject} is never set"},
	{"an error before errors", siteOf(limiting("", "per key {http.error.status_code}; "+largeLimit), toBackend), "per key: {http.error.status_code} is never set"},

	{"a certificate of clients", siteOf("tls internal {\nclient_auth {\nmode require_and_verify\ntrust_pool file testdata/ca.pem\n}\n}", limiting("", "per key {http.request.tls.client.subject}; "+largeLimit), toBackend), ""},
	{"settle by the answer", siteOf(limiting("", "cost 100; settle {http.response.header.X-Tokens}; limit 9000/1m"), toBackend), ""},
	{"settle by the proxy", siteOf(limiting("", "cost 100; settle {rp.header.X-Tokens}; limit 9000/1m"), toBackend), ""},
	{"a variable", siteOf("vars tenant acme", limiting("", "per key {vars.tenant}; "+largeLimit), toBackend), ""},
	{"API keys of bearers", globally("tier free {; limit 60/1m; }; api_keys {; from bearer; }", siteOf(limiting("", "per api_key; tiers"), toBackend)), ""},
	{"GB", globally("networks testdata/networks.mmdb", siteOf(limiting("", "match country GB DE; "+largeLimit), toBackend)), ""},
	{"a log of decisions", "{\n\trate_limit {\n\t\tdecision_log\n\t}\n\tlog limits {\n\t\toutput file /tmp/limits.log\n\t\tinclude http.log.rate_limit\n\t}\n}\n" + siteOf(limiting("", largeLimit), toBackend), ""},
}

// Can it do what it says?
var effectCases = []questionCase{
	{"a cost above the limit on a path", siteOf(limiting("", "cost 100 /export; limit 60/1m"), toBackend), "a request costs 100, and limit 60 never has that many"},
	{"a cost above a burst on a path", siteOf(limiting("", "cost 30 /export; limit 60/1m burst 20"), toBackend), "a request costs 30"},
	{"seconds in place of milliseconds", siteOf(limiting("", "cost 1; settle duration; limit 60/1h"), toBackend), "settle duration: it counts milliseconds"},
	{"bytes that are requests", siteOf(limiting("", "limit 100MB/1h"), toBackend), "limit: it counts 100000000 requests"},
	{"bytes per client", siteOf(limiting("", "per key {host}; limit 2GB/24h"), toBackend), "limit: it counts 2000000000 requests"},
	{"a delay that is too short", siteOf(limiting("", "match POST /login; limit 1/1h; on_exceeded delay 2s"), toBackend), "no request waits 2s long enough"},
	{"a delay of seconds for minutes", siteOf(limiting("", "match POST /login; limit 5/10m; on_exceeded delay 10s"), toBackend), "no request waits 10s long enough"},
	{"sign-ins per account", siteOf(limiting("", "match POST /login; per key {http.rate_limit.form.user}; limit 5/5m"), toBackend), "uses up its limit, and keeps its owner out"},
	{"sign-ins of everyone", siteOf(limiting("", "match POST /login; per everyone; limit 5/1m"), toBackend), "keeps all others from signing in"},
	{"sign-ins of everyone that a processor bears", siteOf(limiting("", "match POST /login; per everyone; limit 20/1s"), toBackend), ""},
	{"failures per account", siteOf(limiting("", "match POST /login; per key {http.rate_limit.form.user}; limit 5/5m; count status 401 hold\n}\nzone ip {\nmatch POST /login; limit 20/1m"), toBackend), ""},
	{"sign-ins per account that wait", siteOf(limiting("", "match POST /login; per key {http.rate_limit.json.user}; limit 10/10s; on_exceeded delay 15s\n}\nzone ip {\nmatch POST /login; limit 20/1m"), toBackend), ""},
	{"sign-ins per account that wait for less than the window", siteOf(limiting("", "match POST /login; per key {http.rate_limit.json.user}; limit 10/10s; on_exceeded delay 10s\n}\nzone ip {\nmatch POST /login; limit 20/1m"), toBackend), "keeps its owner out"},
	{"a field beside another handler", siteOf("header X-User {http.rate_limit.form.user}", limiting("", largeLimit), toBackend), "is set for the options of zones only"},
	{"a trap on the first page", siteOf("rate_limit {\ntrap ban 24h /\nzone z {\n"+largeLimit+"\n}\n}", toBackend), "trap: visitors, their browsers or search engines ask for /"},
	{"a trap on robots.txt", siteOf("rate_limit {\ntrap /robots.txt\nzone z {\n"+largeLimit+"\n}\n}", toBackend), "trap: visitors, their browsers or search engines ask for /"},
	{"a page with its pictures", siteOf(limiting("", "limit 5/1m"), toBackend), "fewer than one page with its pictures makes"},
	{"a page with its pictures, of files", siteOf(limiting("", "limit 10/1s"), "file_server"), "fewer than one page with its pictures makes"},
	{"two lines of match", siteOf(limiting("", "match method POST; match /login; limit 5/1m"), toBackend), "match: two lines are alternatives"},
	{"a host and a path", siteOf(limiting("", "match host a.test; match /login; limit 50/1m"), toBackend), "match: two lines are alternatives"},
	{"one name in one site", siteOf(limiting("/a/*", "limit 50/1m"), limiting("/b/*", "limit 90/1m"), toBackend), "in the same site: both count together"},
	{"one name in one site, each on its own", siteOf(limiting("/a/*", "limit 50/1m; scope site"), limiting("/b/*", "limit 90/1m; scope site"), toBackend), "in the same site: both count together"},
	{"a highest cost above the limit", siteOf(limiting("", "match /api/*; cost {http.request.header.X-N}; max_cost 100; limit 20/1m"), toBackend), "max_cost: a request may cost 100, and limit 20"},
	{"an empty key that there isn't", siteOf(limiting("", "per ip; on_empty_key deny; "+largeLimit), toBackend), "on_empty_key has no effect with per ip"},
	{"a prefix of everyone", siteOf(limiting("", "per everyone; ipv4_prefix 24; "+largeLimit), toBackend), "ipv4_prefix has no effect with per everyone"},
	{"a ban where requests pass", siteOf(limiting("", "per client; on_exceeded pass X-Over; ban after 5 violations in 10m for 1h; "+largeLimit), toBackend), "ban: no limit of the zone is enforced"},
	{"jitter in percent", siteOf("rate_limit {\njitter 20\nzone z {\n"+largeLimit+"\n}\n}", toBackend), "jitter: each Retry-After is up to 21 times as long"},
	{"an exemption of all", exempting("/*"), "exempt: every request is exempt"},

	{"a cost on a path", siteOf(limiting("", "cost 10 /export; limit 60/1m"), toBackend), ""},
	{"seconds of requests", siteOf(limiting("", "cost 1; settle duration; limit 60000/1h"), toBackend), ""},
	{"bytes", siteOf(limiting("", "cost 100000; settle bytes; limit 100MB/1h"), toBackend), ""},
	{"a delay", siteOf(limiting("", "limit 60/10s; on_exceeded delay 5s"), toBackend), ""},
	{"a small limit for a login", siteOf(limiting("", "match POST /login; limit 5/1m"), toBackend), ""},
	{"a small limit for a folder", siteOf("handle /api/* {\n" + limiting("", "limit 5/1m") + toBackend + "\n}"), ""},
	{"alternatives", siteOf(limiting("", "match POST /login; match /signup; limit 5/1m"), toBackend), ""},
	{"one name in two sites", siteOf(limiting("", "limit 50/1m; scope site"), toBackend) + "https://b.test {\n" + limiting("", "limit 90/1m; scope site") + toBackend + "\n}\n", ""},
}

// Who is the client?
var addressCases = []questionCase{
	{"everybody is a proxy", fmt.Sprintf(trustingIn, "0.0.0.0/0 ::/0") + siteOf(limiting("", largeLimit), toBackend), "trusted_proxies has a large part of the Internet"},
	{"the first address of a list", "{\n\tservers {\n\t\ttrusted_proxies static 192.0.2.1\n\t}\n}\n" + siteOf(limiting("", largeLimit), toBackend), "trusts proxies, and takes the first address"},
	{"fields without proxies", "{\n\tservers {\n\t\tclient_ip_headers X-Real-IP\n\t}\n}\n" + siteOf(limiting("", largeLimit), toBackend), "client_ip_headers has no effect without trusted_proxies"},
	{"the proxy as a key", fmt.Sprintf(trustingIn, "192.0.2.1") + siteOf(limiting("", "per key {remote_host}; "+largeLimit), toBackend), "is the address of the proxy"},
	{"the proxy is exempt", fmt.Sprintf(trustingIn, "192.0.2.1") + exempting("remote_ip 192.0.2.9"), "remote_ip is the address of the proxy"},
	{"a field of proxies as a key", siteOf(limiting("", "per key {header.X-Forwarded-For}; "+largeLimit), toBackend), "another limit with every other value"},

	{"the proxy's network", fmt.Sprintf(trustingIn, "172.18.0.0/16") + siteOf(limiting("", largeLimit), toBackend), ""},
	{"no proxy", siteOf(limiting("", largeLimit), toBackend), ""},
}

// Each of the five questions about a config is asked of every option, and a config that is right
// isn't warned of.
func TestQuestions(t *testing.T) {
	noData(t)
	for question, cases := range map[string][]questionCase{
		"reach": reachCases, "choice": choiceCases, "set": setCases, "effect": effectCases, "address": addressCases,
	} {
		for _, tt := range cases {
			t.Run(question+"/"+tt.name, func(t *testing.T) {
				warnings, err := load(t, tt.input)
				problem, isError := strings.CutPrefix(tt.want, "error: ")
				if (err != nil) != isError || err != nil && !strings.Contains(err.Error(), problem) {
					t.Fatalf("error %v, want %q", err, tt.want)
				}
				found := 0
				for _, w := range warnings {
					if strings.Contains(w.Msg, problem) {
						found++
					}
					if n := len(w.Msg) + len(w.Write); n > 200 {
						t.Errorf("%d characters: %s; write %s", n, w.Msg, w.Write)
					}
				}
				if !isError && (tt.want == "") != (len(warnings) == 0) || !isError && tt.want != "" && found != 1 {
					t.Errorf("warned of %+v, want %q", warnings, tt.want)
				}
			})
		}
	}
}

// anotherModule is a handler of nobody known: the type that has it has no name, and so no package.
type anotherModule struct{}

func (anotherModule) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.another_module", New: func() caddy.Module { return &struct{ anotherModule }{} }}
}

func (anotherModule) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

func init() { caddy.RegisterModule(anotherModule{}) }

// A handler of another module before a dashboard may set the field that admits its operators, so that a
// field that clients can write is advice there, and an error elsewhere.
func TestDashboardBehindAnotherModule(t *testing.T) {
	noData(t)
	const dashboard = `{"handler":"rate_limit_dashboard","allow":[{"header":{"X-User":["admin"]}}]}`
	for handlers, isError := range map[string]bool{dashboard: true, `{"handler":"another_module"},` + dashboard: false, dashboard + `,{"handler":"another_module"}`: true} {
		warnings, err := loadJSON(t, []byte(`{"apps":{"http":{"servers":{"s":{"listen":[":9080"],"routes":[{"handle":[`+handlers+`]}]}}}}}`))
		if (err != nil) != isError {
			t.Errorf("%s: error %v", handlers, err)
		}
		if !isError && (len(warnings) != 1 || !strings.Contains(warnings[0].Msg, "allow: {http.request.header.X-User} may be what the client has sent")) {
			t.Errorf("%s: warnings %+v", handlers, warnings)
		}
	}
}
