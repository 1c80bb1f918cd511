package caddytest

import (
	"net/http"
	"strings"
	"testing"
)

// forged is what a proxy that appends makes of a request whose client, at 198.51.100.1,
// says that it is 192.0.2.1, which is somebody else.
const forged = "X-Forwarded-For: 192.0.2.1, 198.51.100.1"

// withProxies is a config with other options of the server in the place of trusting.
func withProxies(config, options string) string {
	return strings.Replace(config, trusting, "\n\tservers {\n"+options+"\n}\n\t", 1)
}

// Nobody is banned by what somebody else has written into a field, neither by a trap nor
// for violations. The visit itself is refused.
func TestNobodyIsBannedByAClaimedAddress(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string][]string{
		"one line":     {forged},
		"two lines":    {"X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 198.51.100.1"},
		"with a port":  {"X-Forwarded-For: 192.0.2.1:1234, 198.51.100.1:80"},
		"a long chain": {"X-Forwarded-For: 192.0.2.1" + strings.Repeat(", 127.0.0.2", 20)},
		"before ours":  {"X-Forwarded-For: 192.0.2.1, 198.51.100.1, 127.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, standing("ban after 1 violations in 1h for 1h", "trap ban 1h path /.env", "3/1h"))
			fields := append(fields, agent(1))
			if a := s.get("/.env", fields...); a.status != http.StatusTooManyRequests {
				t.Errorf("a visit to the trap gets %d", a.status)
			}
			s.wantPassed(3, 3, "/", from(1), agent(1)) // which is 192.0.2.1
			s.passed(5, "/", fields...)                // over the limit
			if a := s.get("/elsewhere", from(1), agent(1)); a.status != http.StatusOK {
				t.Errorf("another client is banned: %d, %s", a.status, a.body)
			}
			if lines := s.logLines(claimWarning); len(lines) != 1 || !strings.Contains(lines[0]["write"].(string), "trusted_proxies_strict") {
				t.Errorf("it warns %d times: %v", len(lines), lines)
			}
		})
	}
}

const claimWarning = "a trusted proxy sent several addresses, and Caddy takes the first, which clients can write: nobody is banned by it"

// What only trusted proxies have added to is as good as the peer's address.
func TestAddressesThatProxiesAgreeOn(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("", "trap ban 1h path /.env", "3/1h"))
	chain := "X-Forwarded-For: 192.0.2.1, 127.0.0.2, 192.0.2.1"
	s.get("/.env", chain, agent(1))
	s.wantBanned(3600, chain, agent(1))
	s.wantBanned(3600, from(1), agent(1))
	if len(s.logLines(claimWarning)) > 0 {
		t.Error("it warns")
	}
}

// A strict server takes the address that the proxy has seen, and that is banned.
func TestStrictProxies(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withProxies(standing("", "trap ban 1h path /.env", "3/1h"),
		"trusted_proxies static 127.0.0.1/8\ntrusted_proxies_strict"))
	s.get("/.env", forged, agent(1))
	s.wantBanned(3600, forged, agent(1))
	s.wantBanned(3600, "X-Forwarded-For: 198.51.100.1", agent(1))
	s.wantPassed(3, 3, "/", from(1), agent(1))
}

// Nor is anybody's network squeezed by what others write.
func TestNobodyIsSqueezedByAClaimedAddress(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(standing("", "", "100/1h"), "pressure off", "", 1))
	for i := range 40 {
		s.get("/", forged, agent(i))
	}
	if n := s.metric("caddy_rate_limit_squeezes_total"); n != "0" {
		t.Errorf("%s networks are squeezed", n)
	}
	for i := range 40 {
		s.get("/", from(2), agent(i))
	}
	if n := s.metric("caddy_rate_limit_squeezes_total"); n != "1" {
		t.Errorf("%s networks are squeezed, want the one whose browsers came", n)
	}
}

func TestValidateWarnsOfLooseProxies(t *testing.T) {
	noData(t)
	const warning = "this server trusts proxies, and takes the first address of X-Forwarded-For"
	const static = "trusted_proxies static private_ranges\n"
	for name, c := range map[string]struct {
		options string
		want    int
	}{
		"none":              {"", 0},
		"loose":             {static, 1},
		"strict":            {static + "trusted_proxies_strict", 0},
		"a field of theirs": {static + "client_ip_headers CF-Connecting-IP", 0},
		"that and the list": {static + "client_ip_headers CF-Connecting-IP X-Forwarded-For", 1},
		"unix":              {"trusted_proxies_unix", 1},
	} {
		t.Run(name, func(t *testing.T) {
			conf := withProxies(standing("", "", "3/1h"), c.options) + "http://:{$PORT}/a {\nrate_limit {\nzone a {\nlimit 5/1m\n}\n}\n}\n"
			s := newServer(t, conf)
			out := s.mustValidate()
			if got := strings.Count(out, warning); got != c.want || c.want > 0 && !strings.Contains(out, ":"+s.port+`"]`) {
				t.Errorf("it warns %d times, want %d:\n%s", got, c.want, out)
			}
		})
	}
}

// Nobody is exempt by what the client has written into a field, however the exemption asks for it.
func TestNobodyIsExemptByAClaimedAddress(t *testing.T) {
	t.Parallel()
	for name, exempt := range map[string]string{
		"client_ip":   "exempt client_ip 192.0.2.0/24",
		"not":         "exempt not client_ip 198.51.100.0/24",
		"CEL":         `exempt expression client_ip("192.0.2.0/24")`,
		"placeholder": `exempt expression {client_ip} == "192.0.2.1"`,
		"vars":        "exempt vars client_ip 192.0.2.1",
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, standing("", exempt, "3/1h"))
			s.wantPassed(3, 5, "/", forged, agent(1))
			s.wantPassed(5, 5, "/", from(1), agent(2)) // one address, which the proxy wrote
		})
	}
}

// The dashboard's door doesn't believe an address that the client wrote, however it is asked for.
func TestNobodyIsAdmittedByAClaimedAddress(t *testing.T) {
	t.Parallel()
	doors := map[string]string{
		"client_ip":  "rate_limit_dashboard /limits/* {\nwritable\nallow client_ip 192.0.2.0/24\n}",
		"expression": "rate_limit_dashboard /limits/* {\nallow `client_ip('192.0.2.0/24')`\n}",
		"around":     "@office client_ip 192.0.2.0/24\nhandle @office {\nrate_limit_dashboard /limits/* {\nallow method GET POST\n}\n}",
		"not":        "rate_limit_dashboard /limits/* {\nallow not client_ip 198.51.100.0/24\n}",
	}
	sites := make(map[string]string)
	for name, door := range doors {
		sites[name] = site(door + "\nrespond hello\n")
	}
	eachSite(t, trusting, sites, func(t *testing.T, s *server, _ string) {
		if a := s.get("/limits/", from(1)); a.status != http.StatusOK {
			t.Errorf("one address, which the proxy wrote: got %d", a.status)
		}
		if a := s.get("/limits/", forged); a.status == http.StatusOK && strings.Contains(a.body, "<html") {
			t.Errorf("an address that the client wrote is let in")
		}
		if a := s.send(http.MethodPost, "/limits/bans", forged); a.status == http.StatusOK || a.status == http.StatusSeeOther {
			t.Errorf("an address that the client wrote may write: %d", a.status)
		}
	})
}

// Neither `not` nor a lower cost frees a client that claims an address.
func TestNobodyPaysLessByAClaimedAddress(t *testing.T) {
	t.Parallel()
	cases, sites := map[string]struct {
		zone   string
		passed int // of five requests
	}{
		"not":         {"match not client_ip 192.0.2.0/24\nlimit 3/1h", 3},
		"not country": {"match not remote_ip 10.0.0.0/8\nlimit 3/1h", 3},
		"expression":  {"match expression !client_ip('192.0.2.0/24')\nlimit 3/1h", 3},
		"cost":        {"cost 0 client_ip 192.0.2.0/24\nlimit 3/1h", 3},
		"cost CEL":    {"cost 0 expression client_ip('192.0.2.0/24')\nlimit 3/1h", 3},
	}, make(map[string]string)
	for name, c := range cases {
		sites[name] = site("rate_limit {\nzone z {\nper everyone\n" + c.zone + "\n}\n}\nrespond hello\n")
	}
	eachSite(t, trusting, sites, func(_ *testing.T, s *server, name string) { s.wantPassed(cases[name].passed, 5, "/", forged) })
}

// What a proxy appends may be no address as Caddy reads it; then the next one is the client's own word,
// on a strict server, too.
func TestPartsThatAreNoAddressesHideNobody(t *testing.T) {
	t.Parallel()
	strict := strings.Replace(trusting, "trusted_proxies static", "trusted_proxies_strict\n\t\ttrusted_proxies static", 1)
	for name, servers := range map[string]string{"first": trusting, "strict": strict} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, options(servers)+site("rate_limit_dashboard /limits/* {\nallow client_ip 192.0.2.0/24\n}\n"+
				"rate_limit {\nexempt client_ip 192.0.2.0/24\nzone z {\nper everyone\nlimit 3/1h\n}\n}\nrespond hello\n"))
			if s.wantPassed(5, 5, "/", "X-Forwarded-For: 192.0.2.1"); name == "strict" {
				s.wantPassed(5, 5, "/", "X-Forwarded-For: garbage, 192.0.2.1") // which the proxy wrote
			}
			s.wantPassed(3, 4, "/", "X-Forwarded-For: 203.0.113.9")
			for _, last := range []string{"[2001:db8::1]:80", "[2001:db8::1]", "unknown", "unix:", "", `"198.51.100.1"`, "01.2.3.4"} {
				field := "X-Forwarded-For: 192.0.2.1, " + last
				if a := s.get("/limits/", field); a.status == http.StatusOK {
					t.Errorf("%q: the dashboard lets the client in", last)
				}
				if a := s.get("/", field); a.status != http.StatusTooManyRequests {
					t.Errorf("%q: the client is exempt: %d", last, a.status)
				}
			}
		})
	}
}
