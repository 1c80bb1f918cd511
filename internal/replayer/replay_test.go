package replayer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-tally/caddy-tally"
	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

var replayStart = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// replayCaddyfile has a zone for logins and one for everything.
const replayCaddyfile = `{
	admin off
	auto_https off
}
http://example.com {
	rate_limit {
		zone login {
			match POST /login
			limit 5/1m
		}
		zone all {
			limit 100/10s
		}
	}
	respond hello
}
`

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// caddyLine returns a line of Caddy's log for a request of the n-th client.
func caddyLine(at time.Time, n int) string {
	address := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	return fmt.Sprintf(`{"level":"info","ts":%d.%06d,"logger":"http.log.access.log0","msg":"handled request",`+
		`"request":{"remote_ip":"%[3]s","remote_port":"50422","client_ip":"%[3]s","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/page/%[4]d?utm=1",`+
		`"headers":{"User-Agent":["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"],"Accept":["text/html,application/xhtml+xml"],`+
		`"Accept-Language":["en-US,en;q=0.5"],"Accept-Encoding":["gzip, deflate, br, zstd"],"Cookie":["REDACTED"],"Sec-Fetch-Mode":["navigate"],"Sec-Fetch-Site":["none"],"Referer":["https://example.com/"]}},`+
		`"bytes_read":0,"user_id":"","duration":0.001234,"size":1024,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Type":["text/html; charset=utf-8"],"Vary":["Accept-Encoding"]}}`,
		at.Unix(), at.Nanosecond()/1000, address, n%1000)
}

// replayed replays lines of a log.
func replayed(t *testing.T, caddyfile string, o replay.Options, lines ...string) *replay.Report {
	t.Helper()
	config, err := replayer.Load(writeFile(t, "Caddyfile", caddyfile), "")
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	parser, err := accesslog.NewParser("")
	if err != nil {
		t.Fatal(err)
	}
	log, err := accesslog.NewMerger(parser, []string{"-"}, strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	report, err := config.Replay(context.Background(), log, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// limitNamed returns a report's result for a limit.
func limitNamed(t *testing.T, report *replay.Report, name string) replay.LimitReport {
	t.Helper()
	i := slices.IndexFunc(report.Limits, func(l replay.LimitReport) bool { return l.Limit == name })
	if i < 0 {
		t.Fatalf("the report has no limit %s: %+v", name, report.Limits)
	}
	return report.Limits[i]
}

// post turns a line into a failed login.
func post(line string) string {
	return strings.NewReplacer(`"method":"GET"`, `"method":"POST"`, `/page/`, `/login?p=`, `"status":200`, `"status":401`).Replace(line)
}

// The limits come from the config and the times from the log: of seven logins within a minute two
// are refused, and after that minute there are five again.
func TestReplay(t *testing.T) {
	var lines []string
	for i := range 7 {
		lines = append(lines, post(caddyLine(replayStart.Add(time.Duration(i)*time.Second), 1)))
		lines = append(lines, caddyLine(replayStart.Add(time.Duration(i)*time.Second), 2))
	}
	lines = append(lines, "garbage")
	for i := range 5 {
		lines = append(lines, post(caddyLine(replayStart.Add(3*time.Minute+time.Duration(i)*time.Second), 1)))
	}
	report := replayed(t, replayCaddyfile, replay.Options{Reveal: true}, lines...)
	if report.Requests != 19 || report.Refused != 2 || report.Passed != 17 || report.Log.Bad != 1 {
		t.Errorf("got %+v", report)
	}
	login, all := limitNamed(t, report, "login"), limitNamed(t, report, "all")
	if login.Requests != 12 || login.Clients != 1 || login.Hit != 1 || login.Refused != 2 || !login.First.Equal(replayStart.Add(5*time.Second-time.Millisecond-234*time.Microsecond).Truncate(time.Millisecond)) {
		t.Errorf("got %+v", login)
	}
	if top := login.Top[0]; top.Client != "10.0.0.1/32" || top.Refused != 2 || top.Requests != 12 || top.Peak != 7 || top.Statuses[0] != (replay.Status{Status: 401, Requests: 2}) {
		t.Errorf("got %+v", top)
	}
	if all.Clients != 2 || all.Refused != 0 || all.Requests != 19 {
		t.Errorf("got %+v", all)
	}
	for _, a := range login.Amounts {
		if (a.Clients == 1) != (a.Amount < 7) || a.Own != (a.Amount == 5) {
			t.Errorf("with %d: got %+v", a.Amount, a)
		}
	}
}

func TestReplayPartOfALog(t *testing.T) {
	lines := []string{
		caddyLine(replayStart, 1), caddyLine(replayStart.Add(time.Minute), 2), caddyLine(replayStart.Add(2*time.Minute), 3),
		strings.Replace(caddyLine(replayStart.Add(time.Minute), 4), `"host":"example.com"`, `"host":"other.com"`, 1),
	}
	report := replayed(t, replayCaddyfile, replay.Options{
		From: replayStart.Add(time.Second).UnixNano(), To: replayStart.Add(90 * time.Second).UnixNano(), Sites: []string{"example.com"}, Zone: "all",
	}, lines...)
	if report.Requests != 1 || report.Outside != 2 || report.Other != 1 || len(report.Limits) != 1 {
		t.Errorf("got %+v", report)
	}
}

// Addresses are masked unless they are requested, and no client's text reaches a terminal
// unescaped.
func TestReplayShowsNoAddress(t *testing.T) {
	var lines []string
	for range 7 {
		lines = append(lines, strings.Replace(post(caddyLine(replayStart, 1)), "Mozilla/5.0", `\u001b[2J<script>\t\n`, 1))
	}
	lines = append(lines, "\x1b]0;evil\x07")
	report := replayed(t, replayCaddyfile, replay.Options{}, lines...)
	text, encoded := new(bytes.Buffer), new(bytes.Buffer)
	if err := errors.Join(report.WriteText(text, wording.Look{}), report.WriteJSON(encoded)); err != nil {
		t.Fatal(err)
	}
	for _, out := range []*bytes.Buffer{text, encoded} {
		if strings.Contains(out.String(), "10.0.0.1") || strings.ContainsAny(out.String(), "\x1b\x07") {
			t.Errorf("got %s", out)
		}
		if !strings.Contains(out.String(), "10.0.0.0/24") || !strings.Contains(out.String(), `evil`) {
			t.Errorf("got %s", out)
		}
	}
}

// The report names the data that the log lacks for a key.
func TestReplayCoverage(t *testing.T) {
	report := replayed(t, `{
	auto_https off
}
http://example.com {
	rate_limit {
		zone keys {
			per key {http.request.header.X-Api-Key}
			limit 5/1m
		}
	}
}
`, replay.Options{},
		`10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5`,
		strings.Replace(caddyLine(replayStart, 1), `"headers":{`, `"headers":{"X-Api-Key":["REDACTED"],`, 1),
		strings.Replace(caddyLine(replayStart, 2), `"headers":{`, `"headers":{"X-Api-Key":["k"],`, 1))
	if keys := limitNamed(t, report, "keys"); keys.Requests != 2 || keys.Clients != 2 || keys.Unknown["the header field X-Api-Key"] != 1 {
		t.Errorf("got %+v", keys)
	}
	all := strings.Join(report.Coverage, "\n")
	for _, says := range []string{"The site is unknown of", "have no header fields", "X-Api-Key", "whole seconds"} {
		if !strings.Contains(all, says) {
			t.Errorf("the coverage doesn't say %q:\n%s", says, all)
		}
	}
}

// A log has requests, so it can't tell which connections would have been closed before TLS.
func TestReplayKnowsNoConnections(t *testing.T) {
	for wrapper, want := range map[string]bool{"": false, "servers {\nlistener_wrappers {\nrate_limit {\nconnections 5\n}\ntls\n}\n}\n": true} {
		report := replayed(t, "{\nauto_https off\n"+wrapper+"}\nhttp://example.com {\nrate_limit {\nzone all {\nlimit 5/1m\n}\n}\n}\n", replay.Options{}, caddyLine(replayStart, 1))
		if got := strings.Contains(strings.Join(report.Coverage, "\n"), "would have been closed before TLS"); got != want {
			t.Errorf("%q: got %v of %q", wrapper, got, report.Coverage)
		}
	}
}

// For all logs, the replay finishes, and nothing of the log reaches a terminal unescaped.
func FuzzReplay(f *testing.F) {
	f.Add(caddyLine(replayStart, 1))
	f.Add(strings.Replace(post(caddyLine(replayStart, 1)), `/login?p=1?utm=1`, `//login;.css?%zz&a[=\u0000`, 1))
	f.Add(`10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "OPTIONS * HTTP/1.1" 200 5 "-" "\x1b"`)
	f.Add(strings.NewReplacer(`"client_ip":"10.0.0.1"`, `"client_ip":"ab12"`, `example.com`, `[::1]:http`).Replace(caddyLine(replayStart, 1)))
	caddyfile := writeFile(f, "Caddyfile", replayCaddyfile)
	f.Fuzz(func(t *testing.T, line string) {
		config, err := replayer.Load(caddyfile, "") // one for each: its counts are in memory, and of one time
		if err != nil {
			t.Fatal(err)
		}
		defer config.Close()
		parser, err := accesslog.NewParser("")
		if err != nil {
			t.Fatal(err)
		}
		log, err := accesslog.NewMerger(parser, []string{"-"}, strings.NewReader(strings.Repeat(line+"\n", 3)))
		if err != nil {
			t.Fatal(err)
		}
		report, err := config.Replay(t.Context(), log, replay.Options{Suggest: true, Reveal: true})
		if err != nil {
			t.Fatal(err)
		}
		if n := report.Passed + report.Free + report.Refused + report.Denied + report.Skipped; n != report.Requests || report.Requests != report.Log.Records {
			t.Errorf("%d of %d requests have an outcome, of %d records", n, report.Requests, report.Log.Records)
		}
		text, page, encoded := new(bytes.Buffer), new(bytes.Buffer), new(bytes.Buffer)
		if err := errors.Join(report.WriteText(text, wording.Look{}), report.WriteHTML(page), report.WriteJSON(encoded)); err != nil {
			t.Fatal(err)
		}
		for _, out := range []*bytes.Buffer{text, page, encoded} {
			if strings.ContainsFunc(out.String(), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == 0x202e }) {
				t.Errorf("got %q", out)
			}
		}
		if strings.Count(page.String(), "<script") != 1 {
			t.Errorf("got %s", page)
		}
	})
}

// A zone that counts by status is replayed with the statuses of the log: 20 successful logins use
// up nothing, of seven failed ones two are refused, and then so is a successful one.
func TestReplayCountsByStatus(t *testing.T) {
	for _, count := range []string{"count status 401 403 hold", "count status 401 403"} {
		var lines []string
		second := 0
		login := func(status string) {
			line := post(caddyLine(replayStart.Add(time.Duration(second)*time.Second), 1))
			lines = append(lines, strings.Replace(line, `"status":401`, `"status":`+status, 1))
			second++
		}
		for range 20 {
			login("303")
		}
		for range 7 {
			login("401")
		}
		login("303")
		report := replayed(t, strings.Replace(replayCaddyfile, "limit 5/1m", "limit 5/1m\n\t\t\t"+count, 1), replay.Options{Reveal: true}, lines...)
		got := limitNamed(t, report, "login")
		if report.Requests != 28 || report.Refused != 3 || got.Refused != 3 || got.Clients != 1 || got.Requests != 7 || got.Top[0].Peak != 7 {
			t.Errorf("%s: got %+v of %+v", count, got, report)
		}
		for _, a := range got.Amounts {
			if (a.Clients == 1) != (a.Amount < 7) { // those that failed
				t.Errorf("%s: with %d %d clients are refused", count, a.Amount, a.Clients)
			}
		}
	}
}

// A replay reports the refusals that shadow limits would make, beside actual ones.
func TestReplayOfShadowLimits(t *testing.T) {
	var lines []string
	for i := range 9 {
		lines = append(lines, post(caddyLine(replayStart.Add(time.Duration(i)*time.Second), 1)))
	}
	tried := strings.Replace(replayCaddyfile, "limit 5/1m\n", "limit 5/1m\n\t\t\tlimit 3/1m shadow\n", 1)
	tried = strings.Replace(tried, "zone all {\n", "zone all {\n\t\t\tshadow\n", 1)
	report := replayed(t, tried, replay.Options{}, lines...)
	if report.Requests != 9 || report.Refused != 4 || report.Passed != 5 || report.Would != 2 {
		t.Errorf("%d requests: %d passed, %d refused, %d would be", report.Requests, report.Passed, report.Refused, report.Would)
	}
	tight, enforced, all := limitNamed(t, report, "login-3/1m"), limitNamed(t, report, "login"), limitNamed(t, report, "all")
	if !tight.Shadow || tight.Requests != 5 || tight.Refused != 2 || len(tight.Top) != 1 || enforced.Shadow || enforced.Refused != 4 {
		t.Errorf("in shadow %+v, enforced %+v", tight, enforced)
	}
	if !all.Shadow || all.Refused != 0 || all.Requests != 5 {
		t.Errorf("a zone in shadow: %+v", all)
	}
	var text strings.Builder
	if err := report.WriteText(&text, wording.Look{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"of these, shadow limits would refuse", "Limit login-3/1m (shadow, refuses nothing): 3/1m, per ip"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
}
