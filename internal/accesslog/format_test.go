package accesslog

import (
	"fmt"
	"strings"
	"testing"
)

// summary returns the fields of a record.
func summary(r *Record) string {
	return fmt.Sprint(r.ClientIP, " ", r.User, "|", r.Method, " ", r.Host, " ", r.URI, " ", r.Proto, " tls=", r.TLS, "|", r.Status, " ", r.Logged/1e6, " ", r.Duration/1e6, "|", r.Header)
}

// Each line is read without naming its format.
func TestFormatsAreRecognized(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{
			"common", `10.0.0.1 - ann [20/Nov/2026:11:00:00 +0100] "GET /a?b=c HTTP/1.1" 401 -`,
			`10.0.0.1 ann|GET  /a?b=c HTTP/1.1 tls=false|401 1795168800000 0|[]`,
		},
		{
			"combined", `2001:db8::1 - - [20/Nov/2026:10:00:00 +0000] "POST /login HTTP/2.0" 200 5 "https://example.com/" "Mozilla/5.0 (X11; \"Linux\")"`,
			`2001:db8::1 |POST  /login HTTP/2.0 tls=false|200 1795168800000 0|[{Referer https://example.com/} {User-Agent Mozilla/5.0 (X11; "Linux")}]`,
		},
		{
			"combined of nginx", `10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET /\x22a\xC3\xA4\x5C HTTP/1.1" 200 5 "-" "x\x22 \x22y"`,
			`10.0.0.1 |GET  /"aä\ HTTP/1.1 tls=false|200 1795168800000 0|[{User-Agent x" "y}]`,
		},
		{
			"combined with a host", `example.com:443 10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"`,
			`10.0.0.1 |GET example.com:443 / HTTP/1.1 tls=true|200 1795168800000 0|[{User-Agent curl}]`,
		},
		{
			"common with a host", `example.com 10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5`,
			`10.0.0.1 |GET example.com / HTTP/1.1 tls=false|200 1795168800000 0|[]`,
		},
		{
			"main of nginx", `10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" "203.0.113.9"`,
			`10.0.0.1 |GET  / HTTP/1.1 tls=false|200 1795168800000 0|[{User-Agent curl} {X-Forwarded-For 203.0.113.9}]`,
		},
		{
			"Traefik", `10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" 17 "web@docker" "http://172.18.0.2:80" 12ms`,
			`10.0.0.1 |GET  / HTTP/1.1 tls=false|200 1795168800000 12|[{User-Agent curl}]`,
		},
		{
			"Traefik's JSON", `{"ClientAddr":"10.0.0.1:5","ClientHost":"10.0.0.1","ClientPort":"5","ClientUsername":"-","DownstreamContentSize":9,"DownstreamStatus":404,"Duration":12000000,` +
				`"RequestHost":"example.com","RequestMethod":"GET","RequestPath":"/a?b","RequestProtocol":"HTTP/2.0","RequestScheme":"https","StartUTC":"2026-11-20T10:00:00.5Z","level":"info","msg":"","request_User-Agent":"curl","time":"2026-11-20T10:00:00Z"}`,
			`10.0.0.1 |GET example.com /a?b HTTP/2.0 tls=true|404 1795168800512 12|[{User-Agent curl}]`,
		},
	} {
		r, err := parsed(t, "", tt.line)
		if err != nil || summary(r) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.name, summary(r), err, tt.want)
		}
	}
}

// Format strings are those of nginx, including ones for JSON.
func TestFormatStrings(t *testing.T) {
	for _, tt := range []struct{ format, line, want string }{
		{
			`$msec $remote_addr "$request_method $scheme://$host$request_uri" $status ${request_time} "$http_x_tenant"`,
			`1795168800.250 10.0.0.1 "GET https://example.com/a?b=1" 200 0.250 "acme"`, "",
		},
		{
			`$msec|$remote_addr|$request_method|$scheme|$host|$uri|$args|$status|$request_time|$http_x_tenant|$upstream_addr`,
			`1795168800.250|10.0.0.1|GET|https|example.com|/a|b=1|200|0.250|acme|10.1.1.1:80`,
			`10.0.0.1 |GET example.com /a?b=1  tls=true|200 1795168800250 250|[{X-Tenant acme}]`,
		},
		{
			`{"time":"$time_iso8601","client":"$remote_addr","request":"$request","host":"$host","status":$status,"agent":"$http_user_agent"}`,
			`{"time":"2026-11-20T10:00:00+00:00","client":"10.0.0.1","request":"GET / HTTP/1.1","host":"example.com","status":200,"agent":"a \"b\""}`,
			`10.0.0.1 |GET example.com / HTTP/1.1 tls=false|200 1795168800000 0|[{User-Agent a "b"}]`,
		},
	} {
		p, err := NewParser(tt.format)
		if tt.want == "" {
			if err == nil || !strings.Contains(err.Error(), "nothing is between $host and") {
				t.Errorf("%s: got %v", tt.format, err)
			}
			continue
		}
		r := new(Record)
		if err != nil || p.parse([]byte(tt.line), r) != nil || summary(r) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.format, summary(r), tt.want)
		}
	}
	for format, says := range map[string]string{"": "", "nonsense": "expected caddy", "$a $b": "no variable", "$": "without a name", "${": "without a name"} {
		if _, err := NewParser(format); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", format, err, says)
		}
	}
}

// A missing header field is known only if the format includes it.
func TestFieldsThatALogHides(t *testing.T) {
	for line, want := range map[string][2]bool{ // for User-Agent and X-Tenant
		`10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`: {false, true},
		`10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5`:         {true, true},
		caddyLine: {false, false},
	} {
		r, err := parsed(t, "", line)
		if err != nil || r.Hides("User-Agent") != want[0] || r.Hides("X-Tenant") != want[1] {
			t.Errorf("%s: got %v %v, %v", line, r.Hides("User-Agent"), r.Hides("X-Tenant"), err)
		}
	}
}

// Data other than HTTP on an HTTP port gives no record, and doesn't count as unreadable.
func TestNoHTTP(t *testing.T) {
	for _, request := range []string{`\x16\x03\x01\x02`, `-`, ``, `SSH-2.0-Go`} {
		line := `10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "` + request + `" 400 150 "-" "-"`
		if _, err := parsed(t, "", line); err != errOther {
			t.Errorf("%s: got %v", request, err)
		}
	}
}
