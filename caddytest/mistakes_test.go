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
			{"limit 5", "write 5/1m"},
			{"limit 5 1m", "write 5/1m"},
			{"limit 5/60", `got "60": write 5/60s`},
			{"limit 5rps", "write 5/1s"},
			{"limit 5 rps", "write 5/1s"},
			{"limit rate=10r/s", "write 10/1s"},
			{"limit 5-M", "write 5/1m"},
			{"limit 1k/1m", "write 1_000/1m"},
			{"limit 1,000/1m", "write 1_000/1m"},
			{"limit 5/month", "only fixed limits have months, as these have 28 to 31 days: write limit 5/month fixed, or 5/30d"},
			{"limit 5/1mo", "write 5/30d"},
			{"limit 5.5/1m", "write 330/1h"},
			{"limit five/1m", "expected how many pass in which time, such as 5/1m"},
			{"limit 5/10 apples", "expected how many pass in which time, such as 5/1m"},
			{"limit 10r/s burst=20", "write burst 20, or 1 more for nginx's burst=20"},
			{"limit 10r/s burst 20 nodelay", "leave it out: burst says how many may pass at once, 21 for nginx's burst=20; for others to wait, write on_exceeded delay 2s into a line of its own"},
			{"limit 5/1m sliding_window", "write sliding"},
			{"limit 5/1m token-bucket", "write token_bucket"},
			{"limit 5/1m leaky_bucket", "write token_bucket"},
			{"limit 5/1m Burst 10", "write burst"},
			{"limit 5/1m 10/1h", "write another line, limit 10/1h"},
			{"limit 5/1m per ip", "write it into a line of its own"},
			{"rate 5/1m", "write limit 5/1m"},
			{"requests 5", "write events 5"},
			{"max_events 5", "write events 5"},
			{"burst 10", "write it behind the limit: limit 5/1m burst 10"},
			{"window 60", "write 60s"},
			{"window 1 minute", "write 1m"},
			{"events 5/1m", "write a whole number such as 5"},
			{"matcher path /login", "write match path /login"},
			{"path /login", "write match path /login"},
			{"method POST", "write match method POST"},
			{"/login", "write match /login"},
			{"@login", "write match @login"},
			{"match login", "write a path, such as /login, or a matcher"},
			{"match url /login", "write /login"},
			{"match path_regex ^/login", "write path_regexp ^/login"},
			{"match hots example.com", "did you mean host?"},
			{"match example.com", "write host example.com"},
			{"match https://example.com/login", "write {, host example.com, endpoint /login and }"},
			{"per remote_ip", "write per ip"},
			{"per {client_ip}", "write per ip"},
			{"per {remote_host}", "write per ip"},
			{"per IP", "write per ip"},
			{"per address", "write per ip"},
			{"per ip 24", "write ipv4_prefix 24 into a line of its own"},
			{"per subnet", "write per network"},
			{"per all", "write per everyone"},
			{"per session", "write per client"},
			{"per user", "write per key {http.auth.user.id}"},
			{"per header X-Tenant", "write per key {http.request.header.X-Tenant}"},
			{"per host", "write per key {host}"},
			{"per {http.request.host}", "write per key {http.request.host}"},
			{"per key header X-Tenant", "write per key {http.request.header.X-Tenant}"},
			{"per key {host} {path}", `write per key "{http.request.host} {http.request.uri.path}"`},
			{"exempt 10.0.0.0/8", "write it beside the zones and not into one: exempt 10.0.0.0/8"},
			{"headers legacy", "write it beside the zones"},
			{"store sqlite x.db", "write it into the global option"},
			{"zone other {\n\t\t\tlimit 5/1m\n\t\t}", "is the } missing that ends the one before it?"},
			{"respond ok", "is a } missing above?"},
			{"limt 5/1m", "did you mean limit?"},
			{"cost /export 10", "write cost 10 /export"},
			{"match POST /login, /signin", "write POST /login /signin"},
			{"match POST /login,/signin", "write POST /login /signin"},
			{"match GET,POST /login", "write GET POST /login"},
			{"match GET, POST /login", "write GET POST /login"},
			{"exempt 10.0.0.1, 10.0.0.2", "write it beside the zones"},
			{"count status 401, 403", "write count status 401 403"},
			{"count status 401,403", "write count status 401 403"},
			{"limit 5/1m, 100/1h", "write limit 5/1m and limit 100/1h, each on a line of its own"},
			{"limit 5/1m and 100/1h", "write limit 5/1m and limit 100/1h, each on a line of its own"},
			{"events 50 window 1s burst 70", "write limit 50/1s burst 70"},
			{"average 100", "write limit 100/<period> burst <burst>"},
			{"period 1m", "write limit <amount>/1m"},
			{"maxretry 5", "write limit 5/<findtime>"},
			{"findtime 10m", "write limit <maxretry>/10m"},
			{"bantime 1h", "write ban after 1 violation in <findtime> for 1h"},
			{"rate=10r/s", "write limit 10/1s"},
			{"rate 10r/s", "write limit 10/1s"},
			{"match_path /login", "write match /login"},
			{"limit_req zone=login burst=20", "write limit <rate> burst <20 + 1>"},
			{"cost ten", "write cost 10"},
			{"scope own", "must be shared or site"},
		}},
		{inDirective, 3, [][2]string{
			{"zone {\n\t\t\tlimit 5/1m\n\t\t}", "the name is missing: write zone login {"},
			{"zone a\n\t\tlimit 5/1m", "write zone a {, limit 5/1m and }"},
			{"zone a limit 5/1m", "write zone a {, and what belongs to it on lines of their own"},
			{"zone a /login {\n\t\t\tlimit 5/1m\n\t\t}", "write zone a {, and what belongs to it on lines of their own"},
			{"zones a {\n\t\t\tlimit 5/1m\n\t\t}", "write zone a"},
			{"limit 5/1m", "write it into a zone: zone login {, limit 5/1m and }"},
			{"per ip", "write it into a zone: zone login {, per ip and }"},
			{"key {remote_host}", "write it into a zone"},
			{"match path /login", "write it into a zone: zone login {, match path /login and }"},
			{"whitelist 10.0.0.0/8", "write exempt 10.0.0.0/8"},
			{"tier gold {\n\t\t\tlimit 5/1m\n\t\t}", "write it into the global option"},
			{"session", "write it into the global option"},
			{"log_key true", "the option before it takes no value"},
			{"reverse_proxy 127.0.0.1:3000", "is a } missing above?"},
			{"jitter 20%", "write a fraction such as 0.2"},
			{"exempt ip 192.0.2.1", "write client_ip 192.0.2.1"},
			{"exempt 192.168.0.0/99", "write client_ip 192.168.0.0/16"},
			{"exempt 192.168.*", "write client_ip 192.168.0.0/16"},
			{"exempt 10.0.0.1, 10.0.0.2", "write 10.0.0.1 10.0.0.2"},
			{"zone=login:10m rate=5r/s", "write it into a zone: zone login {, limit 5r/s burst <burst + 1> and }"},
			{"trap wp-login.php", "write /wp-login.php"},
			{"trap .env", "write /.env"},
			{"trap ban 1h wp-login.php xmlrpc.php", "write /wp-login.php"},
			{"exempt localhost", "write client_ip 127.0.0.1 ::1"},
			{"exempt example.com", "write host example.com"},
			{"trap ban path /wp-login.php", "write trap ban 24h path /wp-login.php"},
			{"trap 24h path /wp-login.php", "write ban 24h"},
		}},
		{inSite, 2, [][2]string{
			{"rate_limit 5/1m", "write rate_limit {, zone login {, limit 5/1m, } and }"},
			{"rate_limit /login 5/1m", "write rate_limit {, zone login {, limit 5/1m, } and }"},
			{"rate_limit 10r/s", "limit 10r/s"},
			{"rate_limit {remote.host} 10r/m", "write rate_limit {, zone all {, per ip, limit 10/1m, } and }"},
			{"rate_limit /login {header.X-Tenant} 0.5r/s 10000 429", "write rate_limit {, zone all {, per key {http.request.header.X-Tenant}, limit 30/1m, } and }"},
			{"rate_limit on", "rate_limit takes a matcher and a block"},
			{"rate_limit login {\n\t}", "rate_limit takes a matcher and a block"},
			{"rate_limit zone a {\n\t\tlimit 5/1m\n\t}", "the zone on a line of its own"},
			{"rate_limit path /login {\n\t}", "into its zone match path /login"},
		}},
		{inOption, 3, [][2]string{
			{"zone a {\n\t\t\tlimit 5/1m\n\t\t}", "write it into the directive rate_limit of a site"},
			{"limit 5/1m", "write it into a zone of the directive rate_limit of a site"},
			{"exempt 10.0.0.0/8", "write it into the directive rate_limit of a site"},
			{"database /var/lib/x.db", "write store sqlite /var/lib/x.db"},
			{"store /var/lib/x.db", "write store sqlite /var/lib/x.db"},
			{"max_keyes 5", "did you mean max_keys?"},
			{"ignoreip 127.0.0.1/8", "write exempt 127.0.0.1/8 into the directive rate_limit of a site"},
			{"limit_conn addr 10", "write limit 10 concurrent into a zone of the directive rate_limit of a site"},
			{"ban AS64496", "write into the site @banned asn AS64496 and respond @banned 403"},
			{"ban after 5 violations in 10m for forever", "write for 366d, the longest"},
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

func adaptRaw(t *testing.T, input string) json.RawMessage {
	t.Helper()
	raw, _, err := adaptCaddyfile([]byte(input), nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
