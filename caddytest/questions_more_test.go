package caddytest

import "testing"

// combinations are wrong configs with options in combinations that the cases of the questions don't have.
var combinations = []string{
	// Requests that never arrive.
	siteOf("rate_limit {\nexempt /login\nzone login {\nmatch POST /login\nlimit 5/1m\n}\n}", "reverse_proxy app:80"),
	siteOf("rate_limit {\nexempt /api/*\nzone api {\nmatch /api/v1/* /api/v2/*\nlimit 60/1m\n}\n}", "reverse_proxy app:80"),
	siteOf("rate_limit /api/* {\ntrap ban 1h /wp-login.php\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	siteOf("handle /shop/* {\nrate_limit {\ntrap /.env /.git/*\nzone z {\nlimit 300/1m\n}\n}\nreverse_proxy shop:80\n}\nhandle {\nreverse_proxy app:80\n}"),
	siteOf(limiting("", "match /api/*; cost 10 /export/*; limit 100/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "match POST /api/*; cost 5 GET /api/search; limit 100/1m"), "reverse_proxy app:80"),
	siteOf("rate_limit {\ntrap ban 1h /wp-login.php\nzone login {\nmatch POST /wp-login.php\nlimit 5/1m\n}\n}", "php_fastcgi app:9000"),
	siteOf(limiting("", "limit 300/1m"), "basic_auth {\nbob "+bobsHash+"\n}", "rate_limit_dashboard", "reverse_proxy app:80"),
	siteOf("handle /app/* {\nuri strip_prefix /app\n"+limiting("", "match POST /app/login; limit 5/1m")+"reverse_proxy app:80\n}\nreverse_proxy app:80") + "https://b.test {\nhandle /x/* {\n" + limiting("", "match host c.test; limit 5/1m") + "reverse_proxy app:80\n}\n}\n",
	siteOf("route /old/* {\nredir https://b.test{uri}\n}", "route {\n"+limiting("", "match /old/*; limit 60/1m")+"reverse_proxy app:80\n}"),
	globally("session {; path /check/; }", siteOf("handle /check/* {\nreverse_proxy app:80\n}\nhandle {\n"+limiting("", "per client; limit 60/1m; on_exceeded challenge")+"reverse_proxy app:80\n}")),
	globally("rules_file /etc/caddy/rules", siteOf("handle /app/* {\nrate_limit\nreverse_proxy app:80\n}\nhandle {\nreverse_proxy b:80\n}")),
	globally("api_keys {; from bearer; file /tmp/keys; }; tier a {; limit 60/1m; }", siteOf(limiting("", "limit 300/1m"), "file_server")),
	globally("tier free {; limit 60/1m; }; tier gold {; limit 600/1m; }", siteOf(limiting("", "limit 300/1m"), "file_server")),
	// What clients choose.
	siteOf(limiting("", "per key {http.request.cookie.session}; on_empty_key skip; limit 60/1m"), "reverse_proxy app:80"),
	siteOf("vars plan {query.plan}", "rate_limit {\nexempt vars plan gold\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	siteOf(limiting("", "match not vars {http.request.cookie.member} yes; limit 300/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "cost {header.X-Size} POST /upload; limit 100/1m"), "reverse_proxy app:80"),
	// What is never set, or without effect.
	siteOf(limiting("", "per key {http.request.tls.client.subject}; limit 300/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per key {http.error.status_code}; limit 300/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "prefix_ceiling 10; limit 300/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "ban after 5 violations in 10m for 1h; limit 300/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per everyone; ipv4_prefix 24; limit 3000/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per ip; on_empty_key deny; limit 300/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per ip; reputation on; limit 300/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "per client; on_exceeded pass X-Over; ban after 5 violations in 10m for 1h; limit 300/1m"), "reverse_proxy app:80"),
	// What can't be done.
	siteOf("rate_limit {\njitter 20\nzone z {\nlimit 300/1m\n}\n}", "reverse_proxy app:80"),
	siteOf(limiting("", "match /api/*; cost {header.X-Batch}; max_cost 100; limit 20/1m"), "reverse_proxy app:80"),
	siteOf(limiting("", "match POST /upload; cost 20MB; settle bytes; limit 10MB/1h"), "reverse_proxy app:80"),
	siteOf(limiting("", "match /stream; limit 2 concurrent wait 100ms; on_exceeded delay 5s; limit 1/10m"), "reverse_proxy app:80"),
}

// Options that defeat one another say something.
func TestCombinationsOfOptions(t *testing.T) {
	noData(t)
	for _, config := range combinations {
		if warnings, err := load(t, config); err == nil && len(warnings) == 0 {
			t.Errorf("silent about\n%s", config)
		}
	}
}
