package caddytest

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// rulesFile is where bans and allowances are unless the config says otherwise.
func (s *server) rulesFile() string { return filepath.Join(s.data(), "caddy", "rate_limit", "rules") }

// writeRules replaces the file of bans and allowances, as an editor does.
func (s *server) writeRules(lines ...string) {
	s.t.Helper()
	path := s.rulesFile()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path+"~", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		s.t.Fatal(err)
	}
}

// setRules is writeRules, and waits until the lines are in force.
func (s *server) setRules(lines ...string) {
	s.t.Helper()
	read := len(s.logLines(rulesRead))
	s.writeRules(lines...)
	waitFor(s.t, "the file to be read again", func() bool { return len(s.logLines(rulesRead)) > read })
}

const rulesRead = "the file of bans and allowances was read again"

// wantBannedByOperator checks that a request is refused as one of a banned client, without
// an end if the ban has none.
func (s *server) wantBannedByOperator(ends bool, path string, fields ...string) {
	s.t.Helper()
	a := s.get(path, fields...)
	if a.status != http.StatusTooManyRequests || (a.header.Get("Retry-After") != "") != ends {
		s.t.Errorf("%s %v: status %d and Retry-After %q", path, fields, a.status, a.header.Get("Retry-After"))
	}
	if len(a.header["Ratelimit"]) > 0 {
		s.t.Errorf("%s %v: is told of limits: %v", path, fields, a.header)
	}
}

// A ban refuses every request, of whatever zone, before anything is counted. An allowance
// lets every request pass, and counts nothing.
func TestRulesDecideBeforeLimits(t *testing.T) {
	t.Parallel()
	s := newServer(t, standing("ban after 1 violations in 1h for 1h", "exempt path /health\ntrap ban 1h path /.env\n"+
		"zone closed {\nmatch /closed\nper key {http.request.header.X-Pass}\non_empty_key deny\nlimit 9/1h\n}", "3/1h"))
	s.writeRules("ban 192.0.2.1", "ban 192.0.2.2 until "+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+" # for an hour", "allow 192.0.2.3")
	s.start()
	for range 5 {
		s.wantBannedByOperator(false, "/", from(1))
		s.wantBannedByOperator(false, "/elsewhere", from(1))
	}
	if a := s.get("/", from(1)); a.body != "ban ban" {
		t.Errorf("the page for errors says %q", a.body)
	}
	s.wantPassed(1, 1, "/health", from(1))
	s.wantBannedByOperator(true, "/", from(2))
	if wait := s.get("/", from(2)).retryAfter(); wait < 1 || wait > 3600 {
		t.Errorf("a ban for an hour is one for %d s", wait)
	}
	s.wantPassed(20, 20, "/", from(3))
	for _, path := range []string{"/.env", "/closed", "/elsewhere"} {
		if a := s.get(path, from(3)); a.status != http.StatusOK || len(a.header["Ratelimit"]) > 0 {
			t.Errorf("%s of a client that is allowed: status %d, %v", path, a.status, a.header)
		}
	}
	// Neither was anything counted.
	s.setRules("# nothing")
	for _, client := range []int{1, 2, 3} {
		s.wantPassed(3, 3, "/", from(client))
	}
	// A client that is banned for a violation is let in again, as long as the allowance holds.
	s.passed(1, "/", from(3))
	s.wantBanned(3600, from(3))
	s.setRules("allow 192.0.2.0/24")
	s.wantPassed(5, 5, "/", from(3))
	s.setRules("allow 192.0.2.0/24 until 2000-01-01")
	s.wantBanned(3600, from(3))
	for series, want := range map[string]string{
		`caddy_rate_limit_decisions_total{limit="ban",outcome="banned",zone="rules"}`:    "13",
		`caddy_rate_limit_decisions_total{limit="allow",outcome="allowed",zone="rules"}`: "28",
		`caddy_rate_limit_decisions_total{limit="z",outcome="allowed",zone="z"}`:         "9",
	} {
		if got := s.metric(series); got != want {
			t.Errorf("%s is %s, want %s", series, got, want)
		}
	}
}

// An address that the client may have written itself earns no allowance.
func TestAllowancesNeedProof(t *testing.T) {
	t.Parallel()
	s := newServer(t, standing("", "", "3/1h"))
	s.writeRules("allow 192.0.2.1", "ban 192.0.2.2")
	s.start()
	s.wantPassed(9, 9, "/", from(1), agent(1))
	s.wantPassed(3, 5, "/", forged, agent(1)) // says that it is 192.0.2.1
	s.wantBannedByOperator(false, "/", "X-Forwarded-For: 192.0.2.2, 198.51.100.1")
}

func TestRulesAboutAPIKeys(t *testing.T) {
	t.Parallel()
	s := newServer(t, options(`
	rate_limit {
		store_timeout 1m
		tier free {
			limit 2/1h
		}
		api_keys
	}
	`+trusting)+site("rate_limit {\nzone z {\ntiers\n}\n}\nrespond hello"))
	keys := make(map[string]string)
	for _, name := range []string{"acme", "acme/web", "other"} {
		key, err := apikeys.New(filepath.Join(filepath.Dir(s.rulesFile()), "api_keys"), apikeys.Holder{Name: name, Tier: "free"})
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = "X-Api-Key: " + key
	}
	s.writeRules("allow api-key:acme", "ban api-key:acme/web", "ban 192.0.2.0/24", "allow 198.51.100.1")
	s.start()
	s.wantPassed(9, 9, "/", from(1), keys["acme"]) // from a banned network
	s.wantBannedByOperator(false, "/", "X-Forwarded-For: 198.51.100.2", keys["acme/web"])
	s.wantBannedByOperator(false, "/", from(1), keys["other"])
	s.wantPassed(2, 3, "/", "X-Forwarded-For: 198.51.100.2", keys["other"])
	// An allowance is no key.
	if a := s.get("/", "X-Forwarded-For: 198.51.100.1"); a.status != http.StatusUnauthorized {
		t.Errorf("without a key, from an address that is allowed: %d", a.status)
	}
	s.wantPassed(9, 9, "/", "X-Forwarded-For: 198.51.100.1", keys["other"])
	s.setRules("ban api-key:acme")
	s.wantBannedByOperator(false, "/", "X-Forwarded-For: 198.51.100.2", keys["acme/web"]) // a part of it
}

func TestRulesAboutKeys(t *testing.T) {
	t.Parallel()
	s := newServer(t, strings.Replace(byTenant(""), "rate_limit {\nzone", "rate_limit {\ntrap ban 1h path /.env\nzone", 1))
	s.writeRules(`ban key:"a \"b\" # c"`, "allow key:good")
	s.start()
	s.wantBannedByOperator(false, "/", `X-Tenant: a "b" # c`)
	s.wantPassed(1, 1, "/.env", "X-Tenant: good")
	s.wantPassed(5, 5, "/", "X-Tenant: good")
	s.wantPassed(2, 3, "/", "X-Tenant: a")
	s.wantPassed(2, 3, "/", from(1))
}

func TestRulesAboutSessions(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(withSessions("", "limit 1/1h"), "zone z {", "log_key\nzone z {", 1))
	cookie := s.earn(from(1))
	s.passed(2, "/", from(1), cookie)
	lines := s.logLines("rate limit exceeded")
	if len(lines) != 1 {
		t.Fatalf("the log has %v", lines)
	}
	name, ok := strings.CutPrefix(lines[0]["key"].(string), "session ")
	if !ok {
		t.Fatalf("the key is %v", lines[0]["key"])
	}
	s.setRules("allow session:" + name)
	s.wantPassed(5, 5, "/", from(1), cookie)
	s.wantPassed(0, 1, "/", from(2), cookie) // which may be stolen, and has a quarter of its limit
	s.setRules("ban session:" + name)
	s.wantBannedByOperator(false, "/", from(1), cookie)
	s.wantBannedByOperator(false, "/", from(2), cookie)
	if a := s.get(endpoint, from(1), cookie); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "" {
		t.Errorf("the challenge is answered with %d, %v", a.status, a.header)
	}
	s.wantPassed(1, 1, "/", from(1))
	// A session is no way out of a ban by an operator.
	s.setRules("ban 192.0.2.3 until " + strconv.Itoa(time.Now().Year()+1) + "-12-01")
	if a := s.get("/", append(navigation, from(3))...); a.status != http.StatusTooManyRequests || strings.Contains(a.body, "puzzle") {
		t.Errorf("a page is answered with %d: %.200s", a.status, a.body)
	}
	if a := s.get(endpoint, from(3)); a.status != http.StatusTooManyRequests {
		t.Errorf("the challenge is answered with %d", a.status)
	}
}

// A mistake leaves everything in force, and is named in the log, by the admin endpoint, when a
// config is validated and when one is loaded.
func TestMistakeInTheRulesFile(t *testing.T) {
	t.Parallel()
	s := newServer(t, standing("store memory", "", "3/1h"))
	s.writeRules("ban 192.0.2.1")
	s.start()
	s.writeRules("# fine", "ban 192.0.2.1", "ban 192.0.2.2 until tomorrow")
	const wrong = `line 3: until: got "tomorrow", expected a date such as 2026-12-01 (00:00 UTC), or a time such as 2026-12-01T14:00:00Z`
	waitFor(t, "the mistake to be in the log", func() bool {
		lines := s.logLines("the file of bans and allowances has changed and can't be used; its former lines stay in force until it is mended")
		return len(lines) == 1 && strings.HasSuffix(lines[0]["error"].(string), wrong)
	})
	s.wantBannedByOperator(false, "/", from(1))
	s.wantPassed(1, 1, "/", from(2))
	if trouble := s.health().Rules; trouble == nil || trouble.File != s.rulesFile() || !strings.HasSuffix(trouble.Reason, wrong) || trouble.Since.IsZero() {
		t.Errorf("the admin endpoint says %+v", trouble)
	}
	s.wantCommand(t, 1, words("ban 192.0.2.3"), wrong)
	s.wantCommand(t, 1, words("audit"), "Nobody has done anything.")
	if out, err := s.run("validate", "--config", s.config); err == nil || !strings.Contains(out, "rules_file: rules: "+s.rulesFile()+": line 3: until: got") {
		t.Errorf("validate: error %v, says %s", err, out)
	}
	s.setRules("ban 192.0.2.2")
	s.wantBannedByOperator(false, "/", from(2))
	if trouble := s.health().Rules; trouble != nil {
		t.Errorf("the admin endpoint still says %+v", trouble)
	}
	if got := s.metric(`caddy_rate_limit_statements{action="ban"}`); got != "1" {
		t.Errorf("%s bans are in force", got)
	}
	s.writeRules("bann")
	if err := s.load(standing("store memory", "", "4/1h")); err == nil || !strings.Contains(err.Error(), "line 1: got") {
		t.Errorf("a config is loaded: %v", err)
	}
	// Another file, by a reload.
	other := strings.Replace(standing("store memory\nrules_file {$DIR}/other", "", "3/1h"), "{$DIR}", s.dir, 1)
	if err := os.WriteFile(filepath.Join(s.dir, "other"), []byte("ban 192.0.2.3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.mustReload(other)
	s.wantPassed(1, 1, "/", from(2))
	s.wantBannedByOperator(false, "/", from(3))
}

// Who only looks makes no file.
func TestRulesNeedNoFile(t *testing.T) {
	t.Parallel()
	s := newServer(t, standing("", "", "3/1h"))
	if out, err := s.run("validate", "--config", s.config); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(s.rulesFile()); err == nil {
		t.Error("validate has made the file")
	}
	if _, err := os.Stat(filepath.Dir(s.rulesFile())); err == nil {
		t.Error("validate has made the folder")
	}
	s.start()
	s.wantPassed(3, 4, "/", from(1))
	if left, err := filepath.Glob(s.rulesFile() + "*"); err != nil || len(left) > 0 {
		t.Errorf("Caddy has made %v, %v", left, err)
	}
}

// A session that is allowed is issued anew like any other, or the allowance would end with it.
func TestAllowedSessionsAreRenewed(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, withSessions("lifetime 10h", "limit 1/1h"))
	s.get("/")
	signer := session.New(s.secret(), 10*time.Hour)
	issued, value := signer.Issue(time.Now().Add(-6*time.Hour), audience, networkOf(1))
	s.setRules("allow session:" + identity.SessionName(issued.ID[:]))
	a := s.get("/", from(1), "Cookie: rl="+value)
	if len(a.header["Ratelimit"]) > 0 {
		t.Errorf("it is counted: %v", a.header)
	}
	s.wantPassed(3, 3, "/", from(1), cookieOf(t, a))
}

// What an operator commands is in force with the answer, and is in the file.
func TestCommandsBecomeRules(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, standing("", "", "3/1h"))
	s.get("/", from(9)) // the store is open
	admin := s.operator()
	if _, err := admin.Do(t.Context(), operator.Ban, operator.Command{Client: "192.0.2.1", Reason: "test\nban 192.0.2.0/24"}); err != nil {
		t.Fatal(err)
	}
	s.wantBannedByOperator(false, "/", from(1))
	s.wantPassed(1, 1, "/", from(2))
	done, err := admin.Do(t.Context(), operator.Allow, operator.Command{Client: "192.0.2.0/24", For: 3600})
	if err != nil || len(done.Notes) != 1 || !strings.Contains(done.Notes[0], "narrower rules") {
		t.Errorf("an allowance around a ban: %+v, %v", done, err)
	}
	s.wantBannedByOperator(false, "/", from(1))
	s.wantPassed(5, 5, "/", from(2))
	if done, err := admin.Do(t.Context(), operator.Unban, operator.Command{Client: "192.0.2.1"}); err != nil || done.Changed != 1 {
		t.Errorf("unban: %+v, %v", done, err)
	}
	s.wantPassed(5, 5, "/", from(1))
	text, err := os.ReadFile(s.rulesFile())
	if err != nil || strings.Count(string(text), "\nallow 192.0.2.0/24 until ") != 1 || strings.Contains(string(text), "\nban ") {
		t.Errorf("the file is %s, %v", text, err)
	}
}

// In an outage a command still bans, by the rules file, and takes that back. The audit has both once
// the store is in use again.
func TestBansInAnOutageOfTheStore(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, strings.Replace(failing("{$DIR}/tally.db"+noJournal), "store_timeout 1m", "store_timeout 1s", 1))
	s.awaitRecovery()
	unlock := lockDatabase(t, filepath.Join(s.dir, "tally.db"))
	for asked := 0; !s.health().Degraded && asked < 100; asked++ {
		s.get("/", from(2))
	}
	s.wantCommand(t, 0, words("ban 192.0.2.9 --reason outage"), "192.0.2.9 is banned", "on this machine", "the audit has it once the store is back")
	s.wantBannedByOperator(false, "/", from(9))
	s.wantCommand(t, 0, words("unban 192.0.2.9"), "isn't forgotten")
	if got := s.get("/", from(9)).status; got != http.StatusOK {
		t.Errorf("after unban: %d", got)
	}
	unlock()
	s.awaitRecovery()
	s.wantCommand(t, 0, words("audit --client 192.0.2.9"), "unban", "outage")
}
