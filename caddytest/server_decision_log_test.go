package caddytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/identity"
)

// logged is a Caddyfile of a site with limits whose decision log goes to a file of its own, in
// a format.
func logged(file, format, more string) string {
	return options(trusting+`
	rate_limit {
		store_timeout 1m
		decision_log sample 1/1
	}
	log decisions {
		include http.log.rate_limit
		output file `+file+`
		`+format+`
	}
	log default {
		exclude http.log.rate_limit
	}
	`) + site(more+"\nrate_limit {\nzone z {\nlimit 1/1h\n}\n}\nrespond hello")
}

// decisions returns the lines of a decision log.
func decisions(t *testing.T, file string) (lines []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, fields)
	}
	return lines
}

// forgedLines are what clients send who want others to be banned.
var forgedLines = []string{
	`User-Agent: ","client_ip":"198.51.100.1","x":"`,
	`User-Agent: {"level":"info","ts":1795328523.5,"logger":"http.log.rate_limit","msg":"refused","client_ip":"198.51.100.1",`,
}

func TestDecisionLog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rate_limit.log")
	s := startCaddy(t, logged(file, "", ""))
	for client := range 3 {
		s.wantPassed(1, 3, "/some%20page?secret=1", from(client), forgedLines[client%2])
	}
	s.stop()
	if strings.Contains(s.logs(), "192.0.2.") {
		t.Error("the other log shows an address")
	}
	outcomes := make(map[string]int)
	for _, line := range decisions(t, file) {
		outcomes[line["msg"].(string)+" "+line["outcome"].(string)]++
		if line["logger"] != "http.log.rate_limit" || line["zone"] != "z" || line["uri"] != "/some%20page" || !strings.HasPrefix(line["client_ip"].(string), "192.0.2.") {
			t.Errorf("line is %v", line)
		}
	}
	if len(outcomes) != 3 || outcomes["allowed allowed"] != 3 || outcomes["refused over_limit"] != 3 || outcomes["refused blocked"] != 3 {
		t.Errorf("the lines are of %v", outcomes)
	}
}

// Addresses can be masked with Caddy's own means.
func TestDecisionLogCanBeFiltered(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rate_limit.log")
	s := startCaddy(t, logged(file, `format filter {
			wrap json
			fields {
				client_ip ip_mask 24 48
				user_agent delete
				reference hash
			}
		}`, ""))
	s.wantPassed(1, 2, "/", from(7))
	s.stop()
	lines := decisions(t, file)
	if len(lines) != 2 {
		t.Fatalf("there are %d lines, want 2", len(lines))
	}
	for _, line := range lines {
		if _, agent := line["user_agent"]; line["client_ip"] != "192.0.2.0" || agent {
			t.Errorf("line is %v", line)
		}
	}
}

// The filter for fail2ban finds each refusal's client, and nobody else.
func TestFail2banFindsRefusedClients(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("fail2ban-regex"); err != nil {
		t.Skip("fail2ban is not installed")
	}
	file := filepath.Join(t.TempDir(), "rate_limit.log")
	s := startCaddy(t, logged(file, "", ""))
	for client := range 3 {
		s.wantPassed(1, 3, "/", from(client), forgedLines[client%2], typed)
	}
	s.wantPassed(1, 2, "/", "X-Forwarded-For: 2001:db8::1", typed)
	s.wantPassed(1, 1, "/", from(9), typed)
	s.stop()
	out, err := exec.Command("fail2ban-regex", "-o", "<ip>", file, "../examples/fail2ban/filter.d/caddy-tally.conf").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	want := []string{"192.0.2.0", "192.0.2.0", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2", "2001:db8::1"}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("fail2ban finds %q, want %q", got, want)
	}
}

// An address that a client may have chosen is no `client_ip` of a line, so whoever bans by logs bans
// nobody by it: not the one it belongs to, nor the proxy.
func TestNoLineNamesAnAddressThatAClientChose(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rate_limit.log")
	s := startCaddy(t, strings.Replace(logged(file, "", ""), "zone z {", "log_ip\nzone z {", 1))
	s.wantPassed(1, 3, "/", "X-Forwarded-For: 198.51.100.1, 203.0.113.9", typed)
	s.wantPassed(1, 2, "/", from(9), typed)
	s.stop()
	refused := 0
	for _, line := range decisions(t, file) {
		if line["msg"] == "refused" {
			refused++
		}
		if address := line["client_ip"]; address != nil && address != "192.0.2.9" {
			t.Errorf("line is %v", line)
		}
	}
	if refused != 3 {
		t.Errorf("%d lines are of refusals, want 3", refused)
	}
	if strings.Contains(s.logs(), "198.51.100.1") || !strings.Contains(s.logs(), `"client_ip":"192.0.2.9"`) {
		t.Errorf("the log names an address that a client chose, or not the client's:\n%s", s.logs())
	}
	if _, err := exec.LookPath("fail2ban-regex"); err != nil {
		return
	}
	out, err := exec.Command("fail2ban-regex", "-o", "<ip>", file, "../examples/fail2ban/filter.d/caddy-tally.conf").Output()
	if got := strings.Fields(string(out)); err != nil || !slices.Equal(got, []string{"192.0.2.9"}) {
		t.Errorf("fail2ban finds %q, %v, want 192.0.2.9", got, err)
	}
}

// A page elsewhere gets no visitor's address into a firewall: requests that it may have caused are
// marked, and count in a jail of their own. Who says so of all of its requests is banned by that one.
func TestFirewallDropsNobodyWhomAPageElsewhereSent(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rate_limit.log")
	s := startCaddy(t, strings.Replace(logged(file, "", ""), "zone z {", "zone z {\nper client", 1))
	n := 0
	for _, says := range elsewhere {
		n++
		s.wantPassed(1, 46, "/", with(says, from(n), agent(1))...)
		s.wantPassed(1, 10, "/", from(n), agent(1), typed)
	}
	liar, attacker := from(100), from(101)
	s.wantPassed(1, 310, "/", with(elsewhere["picture"], liar, forgedLines[0])...)
	s.wantPassed(1, 40, "/", attacker, typed)
	s.stop()
	if got := slices.Sorted(maps.Keys(initiatorsIn(decisions(t, file)))); !slices.Equal(got, []string{"cross_site", "link", "own_site", "same_site", "unsaid"}) {
		t.Errorf("the lines name the initiators %q", got)
	}
	want := []string{addressIn(attacker), addressIn(liar)}
	banned := bannedByFail2ban(t, "fail2ban/jail.d/caddy-tally.conf", "/var/log/caddy/rate_limit.log", file, want...)
	if slices.Sort(banned); !slices.Equal(banned, slices.Sorted(slices.Values(want))) {
		t.Errorf("fail2ban bans %q, want %q", banned, want)
	}
}

// addressIn returns the address of a client's field.
func addressIn(from string) string { return strings.TrimPrefix(from, "X-Forwarded-For: ") }

// initiatorsIn counts the lines of a decision log by who caused the request.
func initiatorsIn(lines []map[string]any) map[string]int {
	found := make(map[string]int)
	for _, line := range lines {
		found[fmt.Sprint(line["initiator"])]++
	}
	return found
}

// The fail2ban jails and the scenarios for CrowdSec take each initiator once, and those that pages
// elsewhere may be only ten times later.
func TestFirewallsCountEveryInitiator(t *testing.T) {
	t.Parallel()
	jail, scenarios := readSample(t, "../examples/fail2ban/jail.d/caddy-tally.conf"), readSample(t, "../examples/crowdsec/scenarios/caddy-tally.yaml")
	var others []string
	for i := identity.OwnSite + 1; i <= identity.Unsaid; i++ {
		others = append(others, i.String())
	}
	for text, parts := range map[string][]string{
		jail:      {"filter   = caddy-tally\n", "maxretry = 30\n", `initiator="` + strings.Join(others, "|") + `"`, "maxretry = 300\n"},
		scenarios: {"initiator == 'own_site'", "capacity: 30\n", "leakspeed: 20s\n", "\n---\n", "initiator != 'own_site'", "capacity: 300\n", "leakspeed: 2s\n"},
	} {
		for _, part := range parts {
			_, rest, found := strings.Cut(text, part)
			if text = rest; !found {
				t.Errorf("there is no %q, or elsewhere", part)
			}
		}
	}
}

// Whatever else hands addresses of refused requests to other programs says who caused them.
func TestLogsSayWhoCausedARefusal(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(trusting+patient+"log default {\nlevel debug\n}\n")+site("log\nrate_limit {\nlog_ip\nzone z {\nlimit 1/1h\n}\n}\nrespond hello"))
	s.wantPassed(1, 2, "/", with(elsewhere["picture"], from(1))...)
	s.stop()
	lines := s.logLines("rate limit exceeded")
	if len(lines) != 1 || lines[0]["initiator"] != "cross_site" {
		t.Errorf("the log says %v", lines)
	}
	access := s.logLines("handled request")
	if refused, _ := access[len(access)-1]["rate_limit"].(map[string]any); refused["initiator"] != "cross_site" {
		t.Errorf("the access log says %v", access)
	}
	if !strings.Contains(s.logs(), `"initiator":"cross_site","remote_ip"`) {
		t.Errorf("the event doesn't say who caused the request: %s", s.logs())
	}
}

var extracted = regexp.MustCompile(`JsonExtract\(evt\.Parsed\.message, ["'](\w+)["']\)`)

// The parser for CrowdSec looks at fields that a refusal has.
func TestCrowdSecReadsFieldsThatExist(t *testing.T) {
	t.Parallel()
	parser, err := os.ReadFile("../examples/crowdsec/parsers/s01-parse/caddy-tally.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rate_limit.log")
	s := startCaddy(t, logged(file, "", ""))
	s.wantPassed(1, 2, "/", from(1))
	s.stop()
	lines := decisions(t, file)
	refused := lines[len(lines)-1]
	if refused["msg"] != "refused" {
		t.Fatalf("the last line is %v", refused)
	}
	fields := extracted.FindAllStringSubmatch(string(parser), -1)
	if len(fields) < 8 {
		t.Errorf("the parser looks at %d fields only", len(fields))
	}
	for _, field := range fields {
		if value := refused[field[1]]; value == nil {
			t.Errorf("the parser looks at %q, and a line has %v", field[1], refused)
		}
	}
	for _, name := range []string{"acquis.d", "scenarios"} {
		if _, err := os.Stat(filepath.Join("../examples/crowdsec", name, "caddy-tally.yaml")); err != nil {
			t.Error(err)
		}
	}
}

// The access log says why a request was refused, with the reference that the client was told.
func TestAccessLogSaysWhy(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient+trusting)+site(`log
		rate_limit {
			zone z {
				limit 1/1h name hourly
			}
		}
		handle_errors {
			respond {http.rate_limit.exceeded.id}
		}
		respond hello`))
	s.wantPassed(1, 1, "/", from(1))
	refused := s.get("/", from(1))
	s.stop()
	lines := s.logLines("handled request")
	if len(lines) != 2 {
		t.Fatalf("the access log has %d lines, want 2", len(lines))
	}
	if lines[0]["rate_limit"] != nil {
		t.Errorf("of a request that passes it says %v", lines[0]["rate_limit"])
	}
	why, _ := lines[1]["rate_limit"].(map[string]any)
	if why["zone"] != "z" || why["limit"] != "hourly" || why["outcome"] != "over_limit" || why["reference"] != refused.body || len(refused.body) != 64 {
		t.Errorf("it says %v, and the client was told %q", why, refused.body)
	}
}

// Spans that Caddy exports say what was decided.
func TestTracesSayWhatWasDecided(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient+trusting)+site(`tracing {
			span limited
		}
		rate_limit {
			zone z {
				limit 1/1h
			}
		}
		respond hello`), "OTEL_TRACES_EXPORTER=console")
	s.wantPassed(1, 2, "/", from(1))
	s.stop()
	for _, want := range []string{`"rate_limit.zone"`, `"rate_limit.remaining"`, `"allowed"`, `"over_limit"`} {
		if !strings.Contains(s.logs(), want) {
			t.Errorf("the spans lack %s", want)
		}
	}
}
