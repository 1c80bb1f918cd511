package caddytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// comparisons are matchers with a placeholder, §, that a comparison with nothing may meet. Behind a backslash it is a
// text for a function.
var comparisons = []string{
	"expression `§ != \"\"`", "expression `!(§ == \"\")`", "expression `§ != null`", "expression `§ == null`", "expression `null == §`",
	"expression `§ != \"guest\"`", "expression `!(§ in [\"guest\"])`", "expression `!([\"guest\", \"\"].exists(u, u == §))`",
	"expression `[\"guest\", \"\"].all(u, u != §)`", "expression `string(§) != \"\"`", "expression `size(string(§)) > 0`",
	"expression `string(§).matches(\".+\")`", "expression `string(§).startsWith(\"n\")`", "expression `§ == \"\" ? false : true`",
	"expression `type(§) == null_type`", "expression `dyn(§) != \"\"`", "expression `cel.bind(u, §, u != \"\")`", "expression `{method} == \"GET\" && § != \"\"`",
	"expression `§ != \"\" || {method} == \"PUT\"`", "expression `!(§ == \"alice\")`", "expression `§ != \"guest\" && path('*')`",
	"expression `[§].size() == 1`", "expression `{\"a\": §}.a != \"\"`",
	"expression `vars({'\\§': ''})`", "expression `!vars({'\\§': 'guest'})`", "expression `!vars({\"\\§\": [\"guest\", \"other\"]})`",
	"expression `vars_regexp('\\§', '^')`", "expression `!vars_regexp('who', '\\§', 'guest')`",
	"vars § \"\"", "not vars § \"\"", "not vars § guest", "vars_regexp § ^", "not vars_regexp § guest", "not vars_regexp who § guest",
	"{\nmethod GET\nnot vars § guest\n}", "not {\nvars § guest\n}",
}

// written returns the comparisons with one placeholder.
func written(placeholder string) (lines []string) {
	for _, line := range comparisons {
		lines = append(lines, strings.ReplaceAll(line, "§", placeholder))
	}
	return lines
}

// What an expression or another matcher of allow says of a placeholder that nothing before the dashboard sets may hold
// for everybody, so it is refused.
func TestNobodyComesInByWhatIsNeverSet(t *testing.T) {
	noData(t)
	refused := append(written("{http.auth.user.id}"), "expression `ph(req, \"http.auth.user.id\") != \"\"`", "expression `ph( req,'http.auth.user.id') != \"\"`", "expression `{client_ip} == {vars.nobody}`",
		"vars who \"\"", "not vars who guest", "vars_regexp who ^", "expression `vars({'who': ''})`", "expression `!vars({'a': 'b', 'who': 'guest'})`",
		"expression `!vars_regexp('who', 'guest')`", "header X-Token {http.vars.a_very_long_name}", "expression `header({'X-Token': '\\{http.vars.a_very_long_name}'})`")
	for _, placeholder := range []string{"{http.auth.user.groups}", "{map.role}", "{http.reverse_proxy.header.User}", "{tls_client_subject}", "{tls_client_fingerprint}", "{http.error.message}", "{resp.header.User}"} {
		refused = append(refused, "expression `"+placeholder+" != \"\"`", "not vars "+placeholder+" guest")
	}
	for _, line := range refused {
		if _, err := load(t, allowing("", line)); err == nil || !strings.Contains(err.Error(), "rate_limit_dashboard: allow: ") || !strings.Contains(err.Error(), "a comparison with nothing may hold for everybody") && !strings.Contains(err.Error(), "may have any value") {
			t.Errorf("allow %s: %v", line, err)
		}
		if _, err := load(t, siteOf("@users "+line+"\nhandle @users {\nrate_limit_dashboard {\nallow method GET POST\n}\n}")); err == nil {
			t.Errorf("a route with %s: no error", line)
		}
	}
	for _, handler := range []string{`{"handler":"rate_limit_dashboard","allow":[{"expression":"{http.auth.user.id} != \"\""}]}`, `{"handler":"rate_limit_dashboard","allow":[{"expression":{"name":"x","expr":"{http.auth.user.id} != \"\""}}]}`,
		`{"handler":"rate_limit_dashboard","allow":[{"not":[{"vars":{"{http.auth.user.id}":["guest"]}}]}]}`, `{"handler":"rate_limit_dashboard","allow":[{"client_ip":{"ranges":["192.0.2.1"]}},{"vars":{"who":[""]}}]}`} {
		if _, err := loadJSON(t, []byte(`{"apps":{"http":{"servers":{"s":{"listen":[":9080"],"routes":[{"handle":[`+handler+`]}]}}}}}`)); err == nil {
			t.Errorf("%s: no error", handler)
		}
	}
}

// A matcher that holds for a stranger, whatever it says of, is refused.
func TestNobodyComesInByWhatEverybodyHas(t *testing.T) {
	noData(t)
	for _, line := range []string{
		"expression true", "expression `1 == 1`", "expression `{time.now.year} > 2000`", "expression `{system.os} != \"\"`", "expression `{env.HOME} != \"\"`",
		"expression `{host} == \"a.test\"`", "expression `{path}.startsWith(\"/\")`", "expression `{method} == \"POST\"`", "expression `{uuid} != \"\"`",
		"expression `{http.request.tls.version} == \"tls1.3\"`", "expression `{http.time_until_shutdown} == null`", "expression `file({'try_files': ['/']})`",
		"vars {method} GET", "vars {http.request.tls.server_name} a.test", "not vars {host} b.test",
		"expression `{client_ip} != \"\"`", "expression `{remote_host} != \"192.0.2.300\"`", "expression `client_ip('192.0.2.0/24') || true`",
		"expression `client_ip('192.0.2.0/24') || {method} == \"POST\"`", "expression `client_ip('192.0.2.0/24') ? true : {method} == \"GET\"`",
		"expression `!client_ip('192.0.2.0/24') || true`", "expression `client_ip('0.0.0.0/0', '::/0')`", "vars_regexp {client_ip} .", "not vars {client_ip} \"\"",
		"not header X-Token 7f0c9a2b7d4e6f80aa", "expression `!header({'X-Token': '7f0c9a2b7d4e6f80aa'})`", "client_ip 0.0.0.0/1 128.0.0.0/1 ::/1 8000::/1",
	} {
		if _, err := load(t, allowing("", line)); err == nil || !strings.Contains(err.Error(), "everybody can send such a request") && !strings.Contains(err.Error(), "may have any value") {
			t.Errorf("allow %s: %v", line, err)
		}
	}
}

// Where only some requests have passed what sets a placeholder, the door is shut for all others, and writes nothing to
// the log about them. Those that have come in as ever.
func TestDoorIsShutForWhoIsNobody(t *testing.T) {
	t.Parallel()
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user := r.Header.Get("X-Cookie"); user != "" {
			w.Header().Set("Remote-User", user)
		}
	}))
	t.Cleanup(auth.Close)
	const forward = "forward_auth {$AUTH} {\nuri /\ncopy_headers Remote-User\n}\n"
	elsewhere := strings.Replace(basicAuth, "basic_auth {", "basic_auth /elsewhere/* {", 1)
	type door struct{ before, allow string }
	var doors []door
	for _, line := range written("{http.auth.user.id}") {
		doors = append(doors, door{elsewhere, line})
	}
	const mapped = "map /elsewhere/* {method} {map.who} {\ndefault alice\n}\n"
	doors = append(doors, []door{
		{elsewhere, "expression `ph(req, \"http.auth.user.id\") != \"\"`"}, {elsewhere, "expression `ph(req, \"http.auth.\" + \"user.id\") != \"\"`"},
		{elsewhere, "expression `{client_ip} != \"\"`"}, {elsewhere, "not vars {client_ip} guest"}, {elsewhere, "expression `client_ip('192.0.2.1') || true`"},
		{elsewhere, "method GET POST"}, {strings.Replace(forward, "{$AUTH}", "/elsewhere/* {$AUTH}", 1), "method GET POST"},
		{forward, "header Remote-User *"}, {forward, "not header Remote-User \"\""}, {forward, "not header remote-user guest"}, {forward, "not header_regexp Remote-User ^g"},
		{forward, "expression `{header.Remote-User} != \"guest\"`"}, {forward, "expression `!({header.Remote-User} in [\"guest\"])`"}, {forward, "expression `!header({'remote-user': 'guest'})`"},
		{forward, "expression `!header_regexp('Remote-User', '^g')`"}, {forward + "vars who \"{header.Remote-User}\"\n", "not vars who guest"},
		{elsewhere + "request_header X-User \"user-{http.auth.user.id}\"\n", "not header X-User \"\""},
		{elsewhere + "map {http.auth.user.id} {map.who} {\nguest no\ndefault yes\n}\n", "vars {map.who} yes"},
		{mapped, "not vars {map.who} guest"}, {mapped, "expression `{map.who} != \"guest\"`"}, {mapped, "expression `!vars({'\\{map.who}': 'guest'})`"},
		{"vars /elsewhere/* who alice\n", "not vars who guest"}, {"vars /elsewhere/* who alice\n", "expression `!vars({'who': 'guest'})`"},
		{"", "header X-Token {env.NO_SUCH_NAME_HERE}"}, {"", "header X-Token *{env.NO_SUCH_NAME_HERE}*"},
		{"", "expression `{http.rate_limit.client.kind} != \"address\"`"}, {"", "not vars {http.regexp.who.1} guest"}, {"", "not vars {http.matchers.file.type} guest"},
	}...)
	var body strings.Builder
	for i, d := range doors {
		fmt.Fprintf(&body, "handle_path /%d/* {\nroute {\n%srate_limit_dashboard {\nwritable\nallow %s\n}\n}\n}\n", i, d.before, d.allow)
	}
	s := startCaddy(t, options("")+site(body.String()+"respond 418"), "AUTH="+auth.Listener.Addr().String())
	for i, d := range doors {
		for _, fields := range [][]string{nil, {"X-Token: "}, {"Remote-User: admin", "X-Token: x", "Who: admin", "X-User: admin"}} {
			if a := s.get(fmt.Sprintf("/%d/", i), fields...); a.status != http.StatusForbidden {
				t.Errorf("behind %q, allow %s: a stranger with %q gets %d", d.before, d.allow, fields, a.status)
			}
		}
		if d.before == forward {
			if a := s.get(fmt.Sprintf("/%d/", i), "X-Cookie: alice"); a.status != http.StatusOK {
				t.Errorf("behind %q, allow %s: a user gets %d", d.before, d.allow, a.status)
			}
		}
	}
	if logs := s.logs(); strings.Contains(logs, "evaluating expression") {
		t.Errorf("the log has lines about strangers:\n%s", logs)
	}
}

// Behind what sets a placeholder for every request, the same texts are right.
func TestDoorIsOpenBehindAuthentication(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	lines := append(written("{http.auth.user.id}"), written("{http.vars.who}")...)
	for i, line := range lines {
		fmt.Fprintf(&body, "handle_path /%d/* {\nroute {\n%svars who {http.auth.user.id}\nrate_limit_dashboard {\nallow %s\n}\n}\n}\n", i, basicAuth, line)
	}
	s := startCaddy(t, options("")+site(body.String()))
	for i, line := range lines {
		if a := s.get(fmt.Sprintf("/%d/", i), alice); a.status != http.StatusOK {
			t.Errorf("allow %s: alice gets %d", line, a.status)
		}
		if a := s.get(fmt.Sprintf("/%d/", i)); a.status != http.StatusUnauthorized {
			t.Errorf("allow %s: a stranger gets %d", line, a.status)
		}
	}
	if logs := s.logs(); strings.Contains(logs, "rate_limit_dashboard: allow") {
		t.Errorf("the log has warnings:\n%s", logs)
	}
}
