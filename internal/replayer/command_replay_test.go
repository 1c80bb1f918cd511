package replayer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
)

// ranReplay runs `caddy rate-limit replay` with a config.
func ranReplay(ctx context.Context, config string, stdin io.Reader, args ...string) (out string, err error) {
	cmd := replayer.Command(func() (*replayer.Config, error) { return replayer.Load(config, "") })
	var said bytes.Buffer
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetIn(stdin)
	cmd.SetOut(&said)
	cmd.SetErr(&said)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(ctx)
	return said.String(), err
}

// combined returns lines in the format Combined, a second apart, from so many clients.
func combined(lines, clients int) string {
	var log strings.Builder
	for i := range lines {
		log.WriteString(`10.0.0.` + string(rune('0'+i%clients)) + ` - - [` + replayStart.Add(time.Duration(i)*time.Second).Format("02/Jan/2006:15:04:05 -0700") + `] "POST /login HTTP/1.1" 401 5 "-" "curl"` + "\n")
	}
	return log.String()
}

// Invalid flags are reported before a log is read, with the expected values.
func TestReplayMistakes(t *testing.T) {
	config := writeFile(t, "Caddyfile", replayCaddyfile)
	log := writeFile(t, "access.log", caddyLine(replayStart, 1))
	folder := filepath.Dir(log)
	for says, args := range map[string][]string{
		`got no log: expected caddy rate-limit replay`:                    {},
		`is a folder: expected a log`:                                     {folder},
		`no such file`:                                                    {log + ".1"},
		`twice: expected each log once`:                                   {log, log},
		`--top: got -1: expected 1 or more`:                               {"--top", "-1", log},
		`--site: got "https://example.com/"`:                              {"--site", "https://example.com/", log},
		`--site: got "": expected a host`:                                 {"--site", "example.com,", log},
		`--zone: the config has no zone "lgoin": expected login, all`:     {"--zone", "lgoin", log},
		`--from: got "yesterday", expected a date such as`:                {"--from", "yesterday", log},
		`--to: got "2026-13-01"`:                                          {"--to", "2026-13-01", log},
		`expected the earlier time first`:                                 {"--from", "2026-12-02", "--to", "2026-12-01", log},
		`format: got "apache": expected caddy, combined`:                  {"--format", "apache", log},
		`--html: open ` + filepath.Join(folder, "none", "x.html"):         {"--html", filepath.Join(folder, "none", "x.html"), log},
		`is a directory`:                                                  {"--html", folder, log},
		`access.log is one of the logs: expected another file`:            {"--html", log, log},
		`no line of the log could be read as a request: expected Caddy's`: {config},
	} {
		out, err := ranReplay(t.Context(), config, strings.NewReader(combined(20, 1)), args...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q; printed %s", args, err, says, out)
		}
	}
	if text, err := os.ReadFile(log); err != nil || len(text) == 0 {
		t.Errorf("the log holds %q, %v", text, err)
	}
}

// Where no request is replayed, the report says why.
func TestReplayOfNothing(t *testing.T) {
	config := writeFile(t, "Caddyfile", replayCaddyfile)
	for name, tt := range map[string]struct {
		log  string
		args []string
		says string
	}{
		"empty":         {"", nil, "The log is empty."},
		"other lines":   {`{"level":"info","ts":1795168800,"msg":"serving initial configuration"}` + "\n", nil, "No line of the log is about a request. Caddy writes one"},
		"other times":   {combined(3, 1), []string{"--from", "2026-11-20T11:00:00+01:00", "--to", "2026-11-20T10:00:01Z"}, "1 request from"},
		"no such times": {combined(3, 1), []string{"--from", "2026-11-21"}, "3 requests are not within --from and --to. The log has requests from"},
		"other hosts":   {caddyLine(replayStart, 1), []string{"--site", "example.org,example.net"}, "1 request is for other hosts than those of --site: example.com."},
		"empty lines":   {"\n\n", nil, "No line of the log is about a request"},
	} {
		out, err := ranReplay(t.Context(), config, strings.NewReader(tt.log), append(tt.args, "-")...)
		if err != nil || !strings.Contains(out, tt.says) {
			t.Errorf("%s: got %v, %s, want %q", name, err, out, tt.says)
		}
	}
}

// Several hosts are replayed with --site, whatever their ports and however they are written, and
// the first of them is that of lines that name none.
func TestReplayOfSeveralSites(t *testing.T) {
	config := writeFile(t, "Caddyfile", replayCaddyfile)
	var log strings.Builder
	for _, host := range []string{"example.com", "EXAMPLE.com:8080", "example.com.", "www.example.com", "example.org", "[::1]:80", "[::1]"} {
		log.WriteString(strings.Replace(caddyLine(replayStart, 1), `"host":"example.com"`, `"host":"`+host+`"`, 1) + "\n")
	}
	log.WriteString(combined(2, 1))
	for sites, want := range map[string][2]int64{ // requests, and how many of them come to a zone
		"example.com": {5, 4}, "example.com,www.example.com": {6, 4}, "www.example.com,example.com:443": {6, 2}, "::1": {4, 0}, "[::1]:443": {4, 0},
	} {
		out, err := ranReplay(t.Context(), config, strings.NewReader(log.String()), "--json", "--site", sites, "-")
		var report replay.Report
		if err != nil || json.Unmarshal([]byte(out), &report) != nil {
			t.Fatal(err, out)
		}
		if report.Requests != want[0] || report.Passed+report.Refused != want[1] || report.Other != 9-want[0] {
			t.Errorf("%s: %d requests, %d in zones, %d elsewhere, want %v", sites, report.Requests, report.Passed+report.Refused, report.Other, want)
		}
	}
}

// A page is readable by its owner only, and a file that was there stays until there is another
// report.
func TestReplayPage(t *testing.T) {
	config, page := writeFile(t, "Caddyfile", replayCaddyfile), filepath.Join(t.TempDir(), "report.html")
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, err := ranReplay(interrupted, config, strings.NewReader(combined(9, 1)), "--html", page, "-"); err == nil {
		t.Fatal("an interrupted replay has a report")
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("an empty page is left")
	}
	before := strings.Repeat("older ", 100_000)
	if err := os.WriteFile(page, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ranReplay(interrupted, config, strings.NewReader(combined(9, 1)), "--html", page, "-"); err == nil {
		t.Fatal("an interrupted replay has a report")
	}
	if text, err := os.ReadFile(page); err != nil || string(text) != before {
		t.Errorf("the page is %.100s, %v", text, err)
	}
	if _, err := ranReplay(t.Context(), config, strings.NewReader(combined(9, 1)), "--html", page, "-"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.HasSuffix(string(text), "</html>\n") || strings.Contains(string(text), "older") {
		t.Errorf("the page is %.100s, %v", text, err)
	}
	if info, err := os.Stat(page); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the page has the mode %v, %v", info.Mode(), err)
	}
}

// A page is written through no symbolic link: in a folder that others write to, it would be the file
// of their choice.
func TestReplayPageFollowsNoLink(t *testing.T) {
	config, folder := writeFile(t, "Caddyfile", replayCaddyfile), t.TempDir()
	victim, missing := filepath.Join(folder, "victim"), filepath.Join(folder, "missing")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{victim, missing} {
		link := target + ".html"
		if err := os.Symlink(target, link); err != nil {
			t.Skip(err) // for example on Windows, without a privilege
		}
		if _, err := ranReplay(t.Context(), config, strings.NewReader(combined(9, 1)), "--html", link, "-"); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
			t.Errorf("got %v", err)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("the target of a link is %q, %v", text, err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 3 {
		t.Errorf("the folder has %v, %v", files, err)
	}
	if _, err := ranReplay(t.Context(), config, strings.NewReader(combined(9, 1)), "--html", os.DevNull, "-"); err != nil {
		t.Errorf("a device: %v", err)
	}
}

// A replay ends when it is interrupted, also while it waits for a log.
func TestReplayIsInterrupted(t *testing.T) {
	config := writeFile(t, "Caddyfile", replayCaddyfile)
	log, writer := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := ranReplay(ctx, config, log, "-")
		done <- err
	}()
	if _, err := io.WriteString(writer, caddyLine(replayStart, 1)+"\n"); err != nil { // which is read by a replay that has begun
		t.Fatal(err)
	}
	interrupt()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
	writer.Close()
}

// The same log gives the same JSON, whose fields have the names that the documents promise, and
// no value of it is null but the times of a replay without requests.
func TestReplayJSONIsStable(t *testing.T) {
	config := writeFile(t, "Caddyfile", replayCaddyfile)
	var outs []string
	for range 2 {
		out, err := ranReplay(t.Context(), config, strings.NewReader("garbage\n"+combined(60, 7)), "--json", "--suggest", "--site", "example.com", "-")
		if err != nil {
			t.Fatal(err)
		}
		outs = append(outs, out)
	}
	if outs[0] != outs[1] || strings.Contains(outs[0], "null") {
		t.Errorf("got %s and then %s", outs[0], outs[1])
	}
	var report map[string]any
	if err := json.Unmarshal([]byte(outs[0]), &report); err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range report {
		if !strings.Contains(string(docs), "`"+name+"`") {
			t.Errorf("docs/replay.md doesn't name the field %s", name)
		}
	}
	out, err := ranReplay(t.Context(), config, strings.NewReader(""), "--json", "-")
	if err != nil || strings.Count(out, "null") != 2 {
		t.Errorf("got %s, %v", out, err)
	}
}

// Limits of the suggested amounts refuse the clients that the suggestion announces.
func TestSuggestionsHold(t *testing.T) {
	var lines []string
	for n := range 3000 {
		lines = append(lines, caddyLine(replayStart.Add(time.Duration(n)*100*time.Millisecond), n%40))
	}
	with := func(minute, hour int64) string {
		return fmt.Sprintf("{\n\tadmin off\n\tauto_https off\n}\nhttp://example.com {\n\trate_limit {\nzone minute {\nlimit %d/1m\n}\nzone hour {\nlimit %d/1h\n}\n\t}\n}\n", minute, hour)
	}
	report, names := replayed(t, with(1, 1), replay.Options{Suggest: true}, lines...), make(map[string]replay.Suggestion)
	for _, sg := range report.Suggest {
		names[sg.Zone] = sg
	}
	if len(names) != 2 {
		t.Fatalf("got %+v", report.Suggest)
	}
	again := replayed(t, with(names["minute"].Amount, names["hour"].Amount), replay.Options{}, lines...)
	for _, l := range again.Limits {
		sg := names[l.Zone]
		for _, row := range l.Amounts {
			if row.Own && (row.Amount != sg.Amount || row.Clients != sg.Clients) {
				t.Errorf("zone %s: %d clients would be refused, want %d as suggested", l.Zone, row.Clients, sg.Clients)
			}
		}
		if l.Amount != sg.Amount || l.Requests == 0 {
			t.Errorf("zone %s: got %+v, want %+v", l.Zone, l, sg)
		}
	}
	if len(again.Limits) != 2 {
		t.Errorf("got %+v", again.Limits)
	}
}

// A replay knows raises, as it knows bans and allowances: those of the file today.
func TestReplayKnowsRaises(t *testing.T) {
	rules := writeFile(t, "rules", "raise 100x 10.0.0.0 zone login\n")
	for zone, want := range map[string]bool{"login": true, "other": false} {
		config := writeFile(t, "Caddyfile", "{\n\trate_limit {\n\t\trules_file "+rules+"\n\t}\n}\nexample.com {\n\trate_limit {\n\t\tzone "+zone+" {\n\t\t\tlimit 1/1h\n\t\t}\n\t}\n}\n")
		out, err := ranReplay(t.Context(), config, strings.NewReader(combined(50, 1)), "--site", "example.com", "--json", "-")
		var report replay.Report
		if err := errors.Join(err, json.Unmarshal([]byte(out), &report)); err != nil || report.Requests == 0 || (report.Refused == 0) != want {
			t.Errorf("zone %s: %s (%v)", zone, out, err)
		}
	}
}
