package caddytest

import (
	"strings"
	"testing"
)

// wrongConfigs were written from the documentation, without a look at the checks and their cases.
var wrongConfigs = []string{
	// Requests that never arrive.
	"{\n\torder rate_limit last\n}\n" + siteOf("handle /signin* {\nreverse_proxy auth:9000\n}", limiting("", "match POST /signin; limit 5/1m"), "file_server"),
	siteOf("handle /admin/* {\n" + limiting("", "match POST /user/login; limit 5/1m") + "reverse_proxy app:80\n}\nreverse_proxy app:80"),
	siteOf("@api path /api/* /v1/*", "handle @api {\n"+limiting("", "match /graphql; limit 60/1m")+"reverse_proxy api:80\n}\nfile_server"),
	siteOf(limiting("", "match POST /api/token; limit 5/1m"), "handle_path /backend/* {\nreverse_proxy api:80\n}\nhandle {\nroot * /srv\nfile_server\n}"),
	siteOf("@post method POST PUT", limiting("@post", "match GET /search; limit 60/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "match host shop.test; limit 60/1m"), "reverse_proxy app:80"),
	siteOf("redir /old/* /new/", limiting("", "match /old/files/*; limit 60/1m"), "reverse_proxy app:80"),
	"{\n\torder rate_limit after reverse_proxy\n}\n" + siteOf("reverse_proxy app:80", limiting("", "limit 60/1m")),
	siteOf("route {\nreverse_proxy app:80\n" + limiting("", "limit 60/1m") + "}"),
	siteOf("route {\nhandle /api/* {\nreverse_proxy api:80\n}\n" + limiting("", "limit 60/1m") + "reverse_proxy app:80\n}"),
	siteOf("reverse_proxy app:80", "handle_errors {\n"+limiting("", "limit 60/1m")+"respond no\n}"),
	globally("session", siteOf("@pages path *.html /", limiting("@pages", "per client; limit 60/1m; on_exceeded challenge"), "file_server")),
	globally("session", siteOf(limiting("", "match POST /login; per client; limit 5/1m; on_exceeded challenge"), "reverse_proxy app:80")),
	siteOf("basic_auth {\nbob "+bobsHash+"\n}", "rate_limit_dashboard /status", "file_server"),
	siteOf("rate_limit_dashboard /limits/*", "file_server"),
	globally("block_list https://lists.test/drop.txt", siteOf(limiting("", "limit 100/1m"), "file_server")+"https://c.test {\nreverse_proxy c:80\n}\nhttps://d.test {\nfile_server\n}\n"),
	globally("ban after 3 violations in 10m for 1h", siteOf(limiting("", "limit 100/1m"), "file_server")),
	siteOf("rate_limit", "file_server"),
	siteOf("@login {\npath /login\nmethod GET\n}", "handle @login {\n"+limiting("", "match POST /login; limit 5/1m")+"reverse_proxy app:80\n}\nreverse_proxy app:80"),
	// What clients choose.
	exempting("header User-Agent *bingbot*"),
	exempting("header_regexp User-Agent (?i)uptime"),
	exempting("header Referer https://a.test/*"),
	exempting("header X-Forwarded-For 10.*"),
	exempting("header Authorization Bearer*"),
	exempting("expression `{header.User-Agent}.contains(\"Googlebot\")`"),
	exempting("{\n\t\tpath /api/*\n\t\theader X-Debug on\n\t}"),
	siteOf(limiting("", "match not query nolimit=1; limit 100/1m"), "file_server"),
	globally("tier a {; limit 60/1m; }; tier b {; limit 600/1m; }", siteOf(limiting("", "tier {query.plan} a"), "file_server")),
	globally("tier a {; limit 60/1m; }; tier b {; limit 600/1m; }", siteOf("map {header.X-Role} {map.role} {\nadmin b\ndefault a\n}", limiting("", "tier {map.role} a"), "file_server")),
	siteOf(limiting("/api/*", "per key {header.Cookie}; limit 100/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per key {header.X-Device-Id}; limit 100/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per key {query.user}; limit 100/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per key {remote_host}{cookie.session}; limit 100/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per key {header.CF-Connecting-IP}; limit 100/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "cost 500; settle {query.tokens}; limit 9000/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "cost {query.n}; limit 100/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "cost 0 header X-Prefetch yes; limit 100/1m"), "reverse_proxy app:80"),
	allowing("", "header X-Admin yes"),
	allowing("", "expression `{cookie.role} == \"admin\"`"),
	allowing("", "not header X-Guest *"),
	allowing("", "method GET POST"),
	allowing("vars role {cookie.role}", "vars role admin"),
	// What is never set.
	siteOf(limiting("", "cost 500; settle {resp.header.X-Usage}; limit 9000/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per key {http.auth.user.id}; limit 100/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per key {vars.customer}; limit 100/1m"), "reverse_proxy app:80"),
	globally("tier a {; limit 60/1m; }; api_keys {; from header authorization; }", siteOf(limiting("", "per api_key; tiers"), "reverse_proxy app:80")),
	globally("networks testdata/networks.mmdb", siteOf(limiting("", "match not country UK IE; limit 100/1m"), "file_server")),
	"{\n\tlog denials {\n\t\tinclude http.log.rate_limit\n\t\toutput file /tmp/denials.log\n\t}\n}\n" + siteOf(limiting("", "limit 100/1m"), "file_server"),
	siteOf(limiting("", "limit 100/1m"), "header X-Left {http.rate_limit.zz.remaining}", "file_server"),
	siteOf(limiting("", "per key {http.request.remote_addr}; limit 100/1m"), "file_server"),
	// What can't be done.
	siteOf(limiting("", "cost 50 /report; limit 20/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "cost 1; settle duration; limit 300/10m"), "reverse_proxy app:80"),
	siteOf(limiting("/download/*", "limit 1GB/24h"), "file_server"),
	siteOf(limiting("", "match POST /contact; limit 2/1h; on_exceeded delay 5s"), "reverse_proxy app:80"),
	siteOf("rate_limit {\ntrap ban 1h /favicon.ico\n}", "file_server"),
	siteOf(limiting("", "limit 3/1s"), "file_server"),
	siteOf(limiting("", "match method POST; match path /api/*; limit 50/1m"), "reverse_proxy app:80"),
	siteOf("handle /a/* {\n" + limiting("", "limit 50/1m; scope site") + "reverse_proxy a:80\n}\nhandle {\n" + limiting("", "limit 20/1m; scope site") + "reverse_proxy b:80\n}"),
	// Who is the client.
	"{\n\tservers {\n\t\ttrusted_proxies static 0.0.0.0/0\n\t}\n}\n" + siteOf(limiting("", "limit 100/1m"), "file_server"),
	"{\n\tservers {\n\t\tclient_ip_headers CF-Connecting-IP\n\t}\n}\n" + siteOf(limiting("", "limit 100/1m"), "file_server"),
}

// rightConfigs were written like wrongConfigs, and are right.
var rightConfigs = []string{
	siteOf(limiting("", "match POST /login /signup; limit 5/1m"), "reverse_proxy app:80"),
	siteOf("handle /api/* {\n" + limiting("", "limit 100/1m") + "reverse_proxy api:80\n}\nhandle {\nroot * /srv\nfile_server\n}"),
	siteOf("handle_path /api/* {\n" + limiting("", "match POST /token; limit 5/1m") + "reverse_proxy api:80\n}\nfile_server"),
	siteOf(limiting("", "limit 300/1m"), "encode gzip\nroot * /srv\nfile_server"),
	siteOf("redir /old /new", limiting("", "match /new; limit 60/1m"), "reverse_proxy app:80"),
	siteOf("root * /srv\nphp_fastcgi unix//run/php.sock\nfile_server", limiting("", "match POST /wp-login.php /xmlrpc.php; limit 5/1m")),
	siteOf("try_files {path} /index.html\nfile_server", limiting("", "limit 300/1m")),
	siteOf("rate_limit {\nexempt 192.168.0.0/16\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	siteOf("rate_limit {\nexempt verified_bot google bing\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	siteOf("rate_limit {\nexempt /health /metrics\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	exempting("header X-Probe 0123456789abcdef0123"),
	globally("session", siteOf(limiting("", "per client; limit 300/1m; on_exceeded challenge"), "file_server")),
	globally("session", siteOf(limiting("", "match GET /shop/*; per client; limit 60/1m; on_exceeded challenge"), "reverse_proxy app:80")),
	globally("tier a {; limit 60/1m; }; tier b {; limit 600/1m; }; api_keys {; from header X-Api-Key; missing default a; }", siteOf(limiting("", "per api_key; tiers"), "reverse_proxy app:80")),
	siteOf("basic_auth {\nbob "+bobsHash+"\n}", "rate_limit_user {\nzone z {\nper key {http.auth.user.id}\nlimit 100/1m\n}\n}", "reverse_proxy app:80"),
	siteOf("forward_auth auth:9091 {\nuri /verify\ncopy_headers Remote-User\n}", "rate_limit_user {\nzone z {\nper key {header.Remote-User}\nlimit 100/1m\n}\n}", "reverse_proxy app:80"),
	siteOf("handle_path /limits/* {\nbasic_auth {\nbob " + bobsHash + "\n}\nrate_limit_dashboard\n}\nreverse_proxy app:80"),
	siteOf("handle_path /limits/* {\nrate_limit_dashboard {\nallow client_ip 10.0.0.0/8\n}\n}\nreverse_proxy app:80"),
	globally("block_list https://lists.test/drop.txt", siteOf(limiting("", "limit 300/1m"), "file_server")+"https://b.test {\nrate_limit\nfile_server\n}\n"),
	globally("ban after 5 violations in 10m for 1h", siteOf(limiting("", "per client; limit 300/1m"), "file_server")),
	siteOf("rate_limit {\ntrap ban 1h /wp-login.php /.env\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	siteOf(limiting("", "match /export; cost 10; limit 50/1h"), "reverse_proxy app:80"),
	siteOf(limiting("", "cost 10 /export; limit 100/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "match /download/*; cost 1000000; settle bytes; limit 1GB/24h"), "file_server"),
	siteOf(limiting("", "match /llm/*; cost 500; settle {http.response.header.X-Tokens}; limit 100000/1h"), "reverse_proxy llm:80"),
	siteOf(limiting("", "match /api/*; limit 100/10s; on_exceeded delay 2s"), "reverse_proxy app:80"),
	globally("networks testdata/networks.mmdb", siteOf(limiting("", "match country DE AT CH; limit 100/1m"), "file_server")),
	"{\n\tservers {\n\t\ttrusted_proxies static 10.0.0.5\n\t\ttrusted_proxies_strict\n\t}\n}\n" + siteOf(limiting("", "limit 300/1m"), "reverse_proxy app:80"),
	"{\n\trate_limit {\n\t\tdecision_log\n\t}\n\tlog denials {\n\t\tinclude http.log.rate_limit\n\t\toutput file /tmp/denials.log\n\t}\n}\n" + siteOf(limiting("", "limit 300/1m"), "file_server"),
	// Ways that a request may take.
	siteOf("handle /api/v1/* {\n" + limiting("", "match /api/*; limit 100/1m") + "reverse_proxy api:80\n}\nhandle {\nrespond 404\n}"),
	siteOf("rate_limit {\nzone probes {\nmatch /wp-login.php /.env\nlimit 3/1h\ncount status 404\n}\n}", "handle /app/* {\nreverse_proxy app:80\n}\nhandle {\nrespond 404\n}"),
	siteOf(limiting("", "match /wp-login.php; limit 3/1h"), "respond /wp-login.php 404", "reverse_proxy app:80"),
	siteOf(limiting("", "match POST /api/upload; limit 5/1m"), "@post method POST", "handle @post {\nreverse_proxy app:80\n}\nhandle {\nfile_server\n}"),
	siteOf("@old header X-Version 1", "handle @old {\nrespond 410\n}\nhandle {\n"+limiting("", "match POST /login; limit 5/1m")+"reverse_proxy app:80\n}"),
	siteOf("@lan remote_ip 192.168.0.0/16", "handle @lan {\nreverse_proxy app:80\n}\nhandle {\n"+limiting("", "limit 300/1m")+"reverse_proxy app:80\n}"),
	siteOf("try_files {path} /index.php", limiting("", "match POST /login; limit 5/1m"), "php_fastcgi app:9000"),
	siteOf("uri replace /v1 /v2", limiting("", "match POST /api/v2/login; limit 5/1m"), "handle /api/v2/* {\nreverse_proxy app:80\n}"),
	siteOf("handle_path /a/* {\nhandle_path /b/* {\n" + limiting("", "match POST /login; limit 5/1m") + "reverse_proxy app:80\n}\n}"),
	siteOf("handle /a/* {\nuri strip_prefix /a\n" + limiting("", "match {\nendpoint POST /login\n}; limit 5/1m") + "reverse_proxy app:80\n}"),
	siteOf("@app path_regexp ^/(login|signup)$", "handle @app {\n"+limiting("", "match POST /login; limit 5/1m")+"reverse_proxy app:80\n}\nfile_server"),
	siteOf("@rest not path /static/*", "handle @rest {\n"+limiting("", "match POST /login; limit 5/1m")+"reverse_proxy app:80\n}\nfile_server"),
	siteOf("@safe method GET HEAD", "handle @safe {\nfile_server\n}\nhandle {\n"+limiting("", "limit 30/1m")+"reverse_proxy app:80\n}"),
	siteOf("forward_auth auth:9091 {\nuri /verify\ncopy_headers Remote-User\n}", "rate_limit_user {\nzone z {\nmatch POST /login\nlimit 5/1m\n}\n}", "reverse_proxy app:80"),
	siteOf(limiting("", "match POST /login; limit 5/1m"), "forward_auth auth:9091 {\nuri /verify\n}", "reverse_proxy app:80"),
	"&(limits) {\n" + limiting("", "match POST /login; limit 5/1m") + "}\n" + siteOf("invoke limits", "reverse_proxy app:80"),
	siteOf("reverse_proxy app:80 {\n@missing status 404\nhandle_response @missing {\n" + limiting("", "match GET /files/*; limit 5/1m") + "respond 404\n}\n}"),
	"a.test, www.a.test {\n@www host www.a.test\nredir @www https://a.test{uri}\n" + limiting("", "match POST /login; limit 5/1m") + "reverse_proxy app:80\n}\n",
	"*.a.test {\n@one host one.a.test\nhandle @one {\n" + limiting("", "match POST /login; limit 5/1m") + "reverse_proxy app:80\n}\nhandle {\nabort\n}\n}\n",
	"http://a.test {\n" + limiting("", "match {\nprotocol http\nendpoint /api/*\n}; limit 50/1m") + "reverse_proxy app:80\n}\n",
	siteOf("rate_limit {\nexempt not client_ip 0.0.0.0/0 ::/0\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	siteOf("rate_limit {\nexempt {\nhost a.test\nclient_ip 192.0.2.7\n}\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	siteOf("rate_limit {\nexempt method OPTIONS\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	siteOf(limiting("", "match PROPFIND REPORT /dav/*; limit 300/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "match /rooms/!abc:host/x /a(b)/c; limit 300/1m"), "reverse_proxy app:80"),
	siteOf("@office client_ip 192.0.2.0/24", "handle_path /limits/* {\nhandle @office {\nrate_limit_dashboard {\nwritable\nallow not client_ip 192.0.2.9\n}\n}\n}", "reverse_proxy app:80"),
	siteOf("rate_limit {\nzone key {\nper key {header.X-Api-Key}\nlimit 100/1m\n}\nzone address {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
}

// Nearly every wrong config says something, and no right one does.
func TestConfigsWrittenApart(t *testing.T) {
	noData(t)
	silent := 0
	for _, config := range wrongConfigs {
		if warnings, err := load(t, config); err == nil && len(warnings) == 0 {
			silent++
			t.Logf("silent about\n%s", config)
		}
	}
	if silent > 4 {
		t.Errorf("silent about %d of %d wrong configs", silent, len(wrongConfigs))
	}
	for _, config := range rightConfigs {
		warnings, err := load(t, config)
		if err != nil || len(warnings) > 0 {
			t.Errorf("error %v, warnings %+v:\n%s", err, warnings, strings.TrimSpace(config))
		}
	}
}
