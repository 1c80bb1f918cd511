package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// noon is the time of all tests.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return noon }

// run runs a command line and returns its output.
func run(s operator.Service, args ...string) (out, errs string, err error) {
	return runWith(s, "", args...)
}

func runWith(s operator.Service, input string, args ...string) (out, errs string, err error) {
	return runIn(s, wording.Look{}, input, args...)
}

// runIn runs a command line on a terminal of some look.
func runIn(s operator.Service, look wording.Look, input string, args ...string) (out, errs string, err error) {
	c := console{func(*cobra.Command) (operator.Service, error) { return s, nil }, clock, func(io.Writer) wording.Look { return look }}
	root := &cobra.Command{Use: "rate-limit", SilenceUsage: true}
	root.AddCommand(c.all()...)
	stdout, stderr := new(bytes.Buffer), new(bytes.Buffer)
	root.SetArgs(args)
	root.SetIn(strings.NewReader(input))
	root.SetOut(stdout)
	root.SetErr(stderr)
	err = root.Execute()
	return stdout.String(), stderr.String(), err
}

// looks are the reading commands with their arguments.
var looks = [][]string{
	{"status"}, {"zones"}, {"top"}, {"blocked"}, {"refusals"}, {"bans"}, {"history"}, {"usage", "--key", "acme"}, {"audit"}, {"explain", "203.0.113.9"},
}

// Clients choose keys, and thereby text on an operator's terminal.
func TestNothingHostileReachesTheTerminal(t *testing.T) {
	s := sample.New(clock)
	s.Add("\x1b]0;x\x07\x1b[2J\u202e\u009b31m\x00\x7f\u2028\xff")
	looks := append(looks, []string{"export"}, []string{"reset", "key:\x1b[2J"}, []string{"ban", "key:\u009b", "--reason", "\x1b"}, []string{"ban", "\x1b[2J"})
	for _, args := range looks {
		for _, more := range [][]string{nil, {"--json"}} {
			out, errs, _ := run(s, append(args, more...)...)
			narrow, _, _ := runIn(s, wording.Look{Width: 80}, "", append(args, more...)...)
			if text := out + errs + narrow; text != allPrintable(text) {
				t.Errorf("%v %v prints %q", args, more, text)
			}
			if len(more) > 0 && out != "" && !json.Valid([]byte(out)) {
				t.Errorf("%v --json prints %s", args, out)
			}
		}
	}
}

// allPrintable removes unprintable characters of a text.
func allPrintable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !strconv.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
}

func TestHostileErrorsAreEscaped(t *testing.T) {
	s := sample.New(clock)
	s.Fail(operator.Errorf(404, "there is no %s", "\x1b[2J"))
	if _, errs, err := run(s, "zones"); err == nil || errs != "Error: there is no \\x1b[2J\n" {
		t.Errorf("got %q", errs)
	}
}

func TestJSONIsTheSame(t *testing.T) {
	s := sample.New(clock)
	s.Add("\x1b\u202e𝄞\U000e0001")
	out, _, err := run(s, "top", "--json", "-n", "1000")
	if err != nil {
		t.Fatal(err)
	}
	var got []operator.Key
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) < 2 || got[0].Text != "\x1b\u202e𝄞\U000e0001" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// degraded is a service whose store can't be used.
type degraded struct{ *sample.Service }

func (degraded) Status(context.Context) (operator.Status, error) {
	return operator.Status{Stores: []operator.Store{{Kind: "sqlite", Degraded: true}}}, nil
}

func TestStatusFailsForMonitoringWhileDegraded(t *testing.T) {
	s := sample.New(clock)
	if _, errs, err := run(s, "status", "--check"); err != nil {
		t.Errorf("got %v, %s", err, errs)
	}
	if _, _, err := run(degraded{s}, "status"); err != nil {
		t.Errorf("without --check: %v", err)
	}
	if out, _, err := run(degraded{s}, "status", "--check"); err == nil || !strings.Contains(out, "degraded") {
		t.Errorf("got %v, %s", err, out)
	}
}

func TestNothingFoundIsStatus1(t *testing.T) {
	s := sample.Empty(clock)
	for _, args := range [][]string{{"zones"}, {"top"}, {"blocked"}, {"refusals"}, {"bans"}, {"usage", "--key", "acme"}, {"usage", "--key", "acme", "--format", "csv"}, {"audit"}, {"unban", "203.0.113.9"}, {"disallow", "203.0.113.9"}, {"reset", "203.0.113.9"}} {
		out, errs, err := run(s, args...)
		if !errors.Is(err, errNothing) || errs != "" || strings.Count(out, "\n") != 1 {
			t.Errorf("%v prints %q, %q, and returns %v", args, out, errs, err)
		}
		if out, _, err := run(s, append(args, "--json")...); !errors.Is(err, errNothing) || !json.Valid([]byte(out)) {
			t.Errorf("%v --json prints %q, and returns %v", args, out, err)
		}
	}
}

// An operator's night: a visitor is locked out.
func TestOrders(t *testing.T) {
	s := sample.New(clock)
	for _, test := range []struct{ says, args string }{
		{"198.51.100.200 is banned until 2026-11-23 12:00:00 (in 1d).", "ban 198.51.100.200 --for 24h --reason scraper"},
		{"198.51.100.200 is no longer banned.", "unban 198.51.100.200"},
		{"198.51.100.200 is banned until it is lifted.", "ban 198.51.100.200"},
		{"Every request of 198.51.100.200 passes until 2026-11-22 14:00:00 (in 2h).", "allow 198.51.100.200"},
		{"Every request of 198.51.100.200 passes until 2026-11-29 12:00:00 (in 7d).", "allow 198.51.100.200 --for 7d"},
		{"Limits and bans hold for 198.51.100.200 again.", "disallow 198.51.100.200"},
	} {
		out, _, err := run(s, strings.Fields(test.args)...)
		if want := inLocal(test.says); err != nil || out != want+"\n" {
			t.Errorf("%s: %q, %v, want %q", test.args, out, err, want)
		}
	}
	if acts := s.Acts(); acts[5].Action != "ban" || acts[5].Reason != "scraper" {
		t.Errorf("the audit is %+v", acts[5])
	}
}

// The messages of unban are correct: for a client that wasn't banned, and for one that another rule
// bans.
func TestUnban(t *testing.T) {
	for _, test := range []struct {
		done operator.Done
		says string
	}{
		{operator.Done{Changed: 1}, "No ban of 203.0.113.9 was found; its violations are forgotten.\n"},
		{operator.Done{Changed: 2, Bans: 1}, "203.0.113.9 is no longer banned.\n"},
		{operator.Done{Changed: 1, Bans: 1, Notes: []string{"it is still banned by the rule about 203.0.113.0/24"}},
			"Lifted 1 ban of 203.0.113.9.\nit is still banned by the rule about 203.0.113.0/24\n"},
	} {
		test.done.Client = "203.0.113.9"
		out, _, err := run(unbans{sample.New(clock), test.done}, "unban", "203.0.113.9")
		if err != nil || out != test.says {
			t.Errorf("%+v: %q, %v, want %q", test.done, out, err, test.says)
		}
	}
}

// An end that is too far away is called by the option that has it.
func TestEndsTooFarAway(t *testing.T) {
	for _, action := range []string{"ban", "allow", "raise 5x"} {
		_, _, err := run(sample.New(clock), append(strings.Fields(action), "203.0.113.9", "--until", "9999-12-31")...)
		if err == nil || !strings.Contains(err.Error(), `--until: got "9999-12-31": expected a time within 100 years`) {
			t.Errorf("%s: %v", action, err)
		}
	}
	if out, _, err := run(sample.New(clock), "ban", "203.0.113.9", "--until", "2126-01-01"); err != nil {
		t.Errorf("%s, %v", out, err)
	}
}

// unbans is a service with a given result.
type unbans struct {
	operator.Service
	done operator.Done
}

func (u unbans) Do(context.Context, operator.Action, operator.Command) (operator.Done, error) {
	return u.done, nil
}

// inLocal converts times in a text to the local time zone.
func inLocal(text string) string {
	const layout = "2006-01-02 15:04:05"
	if i := strings.Index(text, "2026-"); i >= 0 {
		at, _ := time.Parse(layout, text[i:i+len(layout)])
		return text[:i] + at.Local().Format(layout) + text[i+len(layout):]
	}
	return text
}

func TestMistakesInCommands(t *testing.T) {
	s := sample.New(clock)
	for args, says := range map[string]string{
		"ban":                                    "expected caddy rate-limit ban <client>",
		"ban 203.0.113.9 --reason night scraper": "got \"scraper\": expected an address",
		"unban 203.0.113.9 scraper":              "nothing was done",
		"ban 203.0.113.9 --for 7":                "--for: got \"7\": expected a duration such as 30m, 24h or 7d",
		"allow 203.0.113.9 --for -2h":            "--for: got \"-2h\"",
		"zones login":                            "expected caddy rate-limit zones",
		"top a b":                                "expected caddy rate-limit top [zone]",
		"history --by week":                      "expected minute, hour or day",
		"history --since yesterday":              "--since: got \"yesterday\"",
		"usage":                                  "--key: expected the name of an API key",
		"usage --key acme --format xml":          "--format: got \"xml\": expected table, json or csv",
		"usage acme":                             "expected caddy rate-limit usage",
		"bans --for 7d":                          "are for --import",
		"bans --allow":                           "are for --import",
		"explain 203.0.113.9 --url /login":       "expected a URL with its scheme and host",
		"explain 203.0.113.9 --header A:b":       "expected --url as well",
		"explain 203.0.113.9 --url http://a/ --header A": "expected a name and a value",
		"bans --import /nowhere/list":                    "/nowhere/list",
	} {
		if _, errs, err := run(s, strings.Fields(args)...); err == nil || !strings.Contains(errs, says) {
			t.Errorf("%s: %q, want %s", args, errs, says)
		}
	}
}

func TestImport(t *testing.T) {
	s := sample.New(clock)
	file := filepath.Join(t.TempDir(), "list")
	const listed = "\ufeff# a list\n\n192.0.2.200 # why\r\n198.51.100.0/24\nallow 192.0.2.1 until 2030-01-01 # office\n"
	if err := os.WriteFile(file, []byte(listed), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := run(s, "bans", "--import", file, "--allow", "--for", "1h", "--reason", "list")
	if err != nil || out != "Imported 3 rules.\n" || !s.Banned("192.0.2.200") || !s.Banned("198.51.100.7") || s.Banned("192.0.2.1") {
		t.Errorf("%q, %v", out, err)
	}
	if out, _, err := runWith(s, "192.0.2.201", "bans", "--import", "-"); err != nil || !s.Banned("192.0.2.201") {
		t.Errorf("%q, %v", out, err)
	}
	if _, errs, err := runWith(s, "192.0.2.202\nsomebody\n", "bans", "--import", "-"); err == nil || !strings.Contains(errs, "-: line 2:") || s.Banned("192.0.2.202") {
		t.Errorf("%q, %v", errs, err)
	}
	for line, says := range map[string]string{
		"allow 0.0.0.0/0":      "-: line 2: got \"allow 0.0.0.0/0\", expected clients to ban",
		"allow api-key:theirs": "with --allow",
		"ban 0.0.0.0/0":        "-: line 2: got 0.0.0.0/0, expected a network of at most /8 (IPv6: /19)",
		"::/0":                 "add --force",
	} {
		if _, errs, err := runWith(s, "192.0.2.203\n"+line+"\n", "bans", "--import", "-"); err == nil || !strings.Contains(errs, says) || s.Banned("192.0.2.203") {
			t.Errorf("%s: %q, %v", line, errs, err)
		}
	}
	if out, _, err := runWith(s, "allow 198.51.0.0/16\nban 10.0.0.0/7\n", "bans", "--import", "-", "--allow", "--force"); err != nil || out != "Imported 2 rules.\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, _, err := runWith(s, "# nobody\n", "bans", "--import", "-"); !errors.Is(err, errNothing) {
		t.Errorf("%q, %v", out, err)
	}
}

func TestRulesOfAnImport(t *testing.T) {
	in := imported{reason: "why"}
	got, err := in.rules([]byte("203.0.113.9\nban 203.0.113.9 until 2030-01-01\n203.0.113.9#own\n"), " until 2026-12-01")
	want := []string{"ban 203.0.113.9 until 2026-12-01 # why", "ban 203.0.113.9 until 2030-01-01 # why", "ban 203.0.113.9 until 2026-12-01 # own"}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, %v", got, err)
	}
}

// An import of any length is split into orders of permitted length.
func TestImportsAreSentInParts(t *testing.T) {
	var list strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&list, "10.0.%d.%d # %s\n", i/256, i%256, strings.Repeat("x", i%150))
	}
	s := &parts{Service: sample.New(clock)}
	if out, _, err := runWith(s, list.String(), "bans", "--import", "-"); err != nil || out != "Imported 2,500 rules.\n" {
		t.Errorf("%q, %v", out, err)
	}
	for _, part := range s.parts {
		body, _ := json.Marshal(part)
		if len(part.Rules) > operator.MaxItems || len(body) > operator.MaxBody {
			t.Errorf("a part has %d rules, %d bytes", len(part.Rules), len(body))
		}
	}
}

type parts struct {
	operator.Service
	parts []operator.Import
}

func (p *parts) Import(ctx context.Context, i operator.Import) (operator.Done, error) {
	p.parts = append(p.parts, i)
	return operator.Done{Changed: len(i.Rules)}, nil
}

func TestQuestions(t *testing.T) {
	for _, test := range []struct {
		client, target string
		want           operator.Question
	}{
		{"203.0.113.9", "", operator.Question{Client: "203.0.113.9"}},
		{"somebody", "", operator.Question{Client: "somebody"}},
		{"::1", "POST https://example.com/login", operator.Question{Client: "::1", Method: "POST", URL: "https://example.com/login"}},
		{"::1", "https://example.com/login", operator.Question{Client: "::1", URL: "https://example.com/login"}},
	} {
		if got, err := question(test.client, test.target, nil); err != nil || fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s %s: got %+v, %v", test.client, test.target, got, err)
		}
	}
	q, err := question("::1", "http://a/", []string{"x-a: b ", "X-A:c:d"})
	if err != nil || fmt.Sprint(q.Header["X-A"]) != "[b c:d]" {
		t.Errorf("got %+v, %v", q.Header, err)
	}
}

// An action takes several clients: each has it, whatever is wrong with another one.
func TestSeveralClients(t *testing.T) {
	s := sample.New(clock)
	out, errs, err := run(knows{s}, "ban", "192.0.2.200", "nobody here", "192.0.2.201", "--for", "1w")
	if err == nil || !strings.Contains(errs, "nobody here") || !s.Banned("192.0.2.200") || !s.Banned("192.0.2.201") || strings.Count(out, "is banned until") != 2 {
		t.Errorf("%q, %q, %v", out, errs, err)
	}
	if out, errs, err := run(s, "unban", "192.0.2.200", "192.0.2.201"); err != nil || s.Banned("192.0.2.200") || s.Banned("192.0.2.201") {
		t.Errorf("%q, %q, %v", out, errs, err)
	}
}

// A raise has its factor before the clients.
func TestRaiseOfSeveralClients(t *testing.T) {
	if out, errs, err := run(sample.New(clock), "raise", "2x", "192.0.2.200", "192.0.2.201"); err != nil || strings.Count(out, "are raised 2x") != 2 {
		t.Errorf("%q, %q, %v", out, errs, err)
	}
	if _, errs, err := run(sample.New(clock), "raise", "2x"); err == nil || !strings.Contains(errs, "expected caddy rate-limit raise <factor> <client>") {
		t.Errorf("%q, %v", errs, err)
	}
}

// knows is a service that knows no client with a space in its name.
type knows struct{ operator.Service }

func (k knows) Do(ctx context.Context, action operator.Action, o operator.Command) (operator.Done, error) {
	if strings.Contains(o.Client, " ") {
		return operator.Done{}, fmt.Errorf("got %q: expected a client", o.Client)
	}
	return k.Service.Do(ctx, action, o)
}

// What is past is named by a date, or by how long ago it was, in weeks, too.
func TestPast(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for word, want := range map[string]time.Time{
		"": {}, "24h": now.Add(-24 * time.Hour), "-24h": now.Add(-24 * time.Hour), "1w": now.AddDate(0, 0, -7),
		"2026-11-01": time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), "2026-11-01T10:00:00+01:00": time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC),
	} {
		if got, err := Past(now, "--since", word); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v, want %v", word, got, err, want)
		}
	}
	for _, word := range []string{"w", "1.5w", "-1w2d", "5000w", "2026-13-01"} {
		if got, err := Past(now, "--since", word); err == nil || !strings.Contains(err.Error(), "or a duration such as 24h") {
			t.Errorf("%q: got %v, %v", word, got, err)
		}
	}
}

func TestCompletion(t *testing.T) {
	s := sample.New(clock)
	s.Add("\x1b[2J")
	for _, test := range []struct{ args, has string }{
		{"top", "login"}, {"history", "login"}, {"reset", "203.0.113."}, {"explain", "203.0.113."}, {"unban", "\n"}, {"reset --zone", "login"},
		{"ban 198.51.100.1", "203.0.113."}, {"usage --key", "acme"}, {"usage --format", "csv"},
		{"usage --month", "2026-11\n2026-10\n2026-09\n"}, {"usage --month", "\n2025-12\n:"},
	} {
		out, _, err := run(s, append(append([]string{"__completeNoDesc"}, strings.Fields(test.args)...), "")...)
		if err != nil || !strings.Contains(out, test.has) || strings.Contains(out, "\x1b") {
			t.Errorf("%s: %q, %v", test.args, out, err)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, cmd := range (console{}).all() {
		if !strings.Contains(cmd.Example, "caddy rate-limit "+cmd.Name()) {
			t.Errorf("%s has the example %q", cmd.Name(), cmd.Example)
		}
		if cmd.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", cmd.Name())
		}
		for line := range strings.Lines(cmd.Long) {
			if len(line) > 81 {
				t.Errorf("%s: %q is wider than a terminal", cmd.Name(), line)
			}
		}
	}
}

// The status of a store on a network shows its machines, its round trip, and its losses, and what advice is about.
func TestStatusShowsTheNetwork(t *testing.T) {
	clock := func() time.Time { return noon }
	advice := []operator.Advice{{Problem: "no request has been in this zone", Zone: "login", At: "Caddyfile:3"}}
	s := statusOf{sample.New(clock), operator.Status{Started: noon.Add(-time.Hour), Advice: advice, Stores: []operator.Store{
		{Kind: "redis", Processes: 4, Network: &operator.Network{RoundTrip: 0.0004213, Ahead: -5.25, LostWrites: 2}},
		{Kind: "postgres", Processes: 1, Network: &operator.Network{RoundTrip: 0.0204, Ahead: 0.003, LaterLines: new(0)}},
		{Kind: "postgres", Processes: 1, Network: &operator.Network{Ahead: 0.003, LaterLines: new(1200)}},
		{Kind: "postgres", Network: &operator.Network{}}, // never read
	}}}
	out, _, err := run(s, "status")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "0 machines") {
		t.Errorf("status counts machines that it doesn't know:\n%s", out)
	}
	for _, want := range []string{
		"4 machines use this store. A call takes 420µs. The clock of this machine is 5.25s behind the store's. Keys are those in the memory of this machine.\n",
		"Advice about zone login: no request has been in this zone, at Caddyfile:3.\n",
		"The store has lost writes that it had acknowledged: 2 times since the start.\n",
		"1 machine uses this store. A call takes 20ms. The clock of this machine is 3ms ahead of the store's. Keys are those in the memory of this machine.\n",
		"Whether values in the store need a line of secret_file after the first is not known. Don't remove a line yet.\n",
		"No value in the store needs a line of secret_file after the first.\n",
		"1 machine uses this store. No request has called it yet. The clock",
		"1,200 values in the store still need a line of secret_file after the first. Don't remove that line yet. If you have, add it again behind the first, and restart.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("status is\n%s\nwant in it %q", out, want)
		}
	}
	if strings.Count(out, "has lost writes") != 1 {
		t.Errorf("status is\n%s\nwant writes lost by one store", out)
	}
}

// The status of regions shows the last contact, and the problem of the exchange.
func TestStatusShowsRegions(t *testing.T) {
	since := noon.Add(-time.Minute)
	s := statusOf{sample.New(clock), operator.Status{Started: noon.Add(-time.Hour), Stores: []operator.Store{{Kind: "sqlite", Region: &operator.Region{
		Name: "eu", Exchange: "db.example.com:5432/tally", Lag: 61, Since: &since, Reason: "no route\x1b", Keys: 3,
		Others: []operator.OtherRegion{{Name: "us", Machines: 2, Gone: 1, Lag: 4}, {Name: "ap", Machines: 1, Lag: 2}},
		Faults: []string{"Region us has a clock that is 10m ahead."},
	}}}}}
	out, _, err := run(s, "status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Region eu: counts were exchanged 1m 1s ago at db.example.com:5432/tally.\n",
		"Counts are not exchanged with other regions, since 2026-11-22 11:59:00 (1m ago): no route\\x1b. This region goes on alone until they are.\n",
		"Region us has a clock that is 10m ahead.",
		"Region us: 2 machines and 1 that went without a word, heard of 4s ago.\n",
		"Region ap: 1 machine, heard of 2s ago.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it prints\n%swant %q", out, want)
		}
	}
}

// The size of a store with seven keys is mostly its journal.
func TestStatusExplainsTheJournal(t *testing.T) {
	s := statusOf{sample.New(clock), operator.Status{Started: noon, Stores: []operator.Store{{Kind: "sqlite", Bytes: 33 << 20, Journal: 32 << 20}}}}
	out, _, err := run(s, "status")
	if want := "32 MiB of 33 MiB are the journal: a file of fixed size that isn't held in memory."; err != nil || !strings.Contains(out, want) {
		t.Errorf("status is\n%s, %v\nwant in it %q", out, err, want)
	}
}

// statusOf is a service with another status.
type statusOf struct {
	operator.Service
	status operator.Status
}

func (s statusOf) Status(context.Context) (operator.Status, error) { return s.status, nil }

// zonesOf is a service with these zones.
type zonesOf struct {
	operator.Service
	zones []operator.Zone
}

func (s zonesOf) Zones(context.Context) ([]operator.Zone, error) { return s.zones, nil }

// A limit of several tiers has one count of decisions, which is in one row.
func TestZonesCountTiersOnce(t *testing.T) {
	counts := operator.Counts{Allowed: 8103, Refused: 40}
	s := zonesOf{sample.New(clock), []operator.Zone{{Name: "api", Per: "api_key", Counts: counts, Limits: []operator.Limit{
		{Name: "api", Text: "100/1h", Tier: "free", Keys: 2, Counts: counts},
		{Name: "api", Text: "5000/1h", Tier: "paid", Keys: 2, Counts: counts},
	}}}}
	out, _, err := run(s, "zones")
	if err != nil || strings.Count(out, "8,103") != 1 || !strings.Contains(out, "free  100/1h      2    8,103       40\n") || !strings.Contains(out, "paid  5000/1h     2 ") {
		t.Errorf("got %v\n%s", err, out)
	}
}

func TestUsageFormats(t *testing.T) {
	s := sample.New(clock)
	const wantCSV = "client,day,zone,limit,units,refused,exact\napi-key:acme,2026-11-21,api,100/1m,41200,103,true\napi-key:acme,2026-11-22,api,100/1m,18350,45,true\n"
	if out, _, err := run(s, "usage", "--key", "acme", "--month", "2026-11", "--format", "csv"); err != nil || out != wantCSV {
		t.Errorf("csv: %q, %v", out, err)
	}
	out, _, err := run(s, "usage", "--key", "key:alice", "--format", "json")
	var got operator.Usage
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil || got.Client != "key:alice" || len(got.Days) != 2 {
		t.Errorf("json: %s, %v", out, err)
	}
	out, _, err = run(s, "usage", "--key", "acme")
	if err != nil || !strings.Contains(out, "2026-11-21  api   100/1m  41,200      103\n") || !strings.Contains(out, "api-key:acme in ") || !strings.Contains(out, "from 2026-11-21 to 2026-11-22 12:00 UTC") {
		t.Errorf("table: %s, %v", out, err)
	}
}

// night is a service with a zone that refuses more than usual, one that always does, and acts.
type night struct {
	*sample.Service
	acts []operator.Act
}

func (night) Zones(context.Context) ([]operator.Zone, error) {
	of := func(name string, refused int64) operator.Zone {
		return operator.Zone{Name: name, Counts: operator.Counts{Refused: refused}}
	}
	return []operator.Zone{of("login", 1000), of("crawlers", 9000), of("quiet", 3)}, nil
}

func (night) History(_ context.Context, q operator.HistoryQuery) (operator.History, error) {
	counts := operator.Counts{Allowed: 50, Refused: 150} // of a crawler's, at any time
	switch {
	case q.Zone == "login" && q.To.Equal(noon):
		counts = operator.Counts{Allowed: 300, Refused: 100}
	case q.Zone == "login":
		counts = operator.Counts{Allowed: 990, Refused: 10}
	}
	return operator.History{Points: []operator.HistoryPoint{{Counts: counts}}}, nil
}

func (n night) Audit(context.Context, operator.AuditQuery) ([]operator.Act, error) {
	return n.acts, nil
}

// Status tells which zones refuse unusually much, and what was done in the last hour.
func TestStatusShowsTheLastHour(t *testing.T) {
	n := night{Service: sample.New(clock)}
	for i := range 9 {
		n.acts = append(n.acts, operator.Act{At: noon.Add(-time.Duration(10*i+1) * time.Minute), By: "admin", Action: "ban", Target: fmt.Sprint("203.0.113.", i), Reason: "scraper\x1b"})
	}
	out, _, err := run(n, "status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Zone login refused 100 requests in the last hour, 25.0 % of its requests; in the day before 1.0 %.",
		"over a limit at the moment", "1m ago: ban 203.0.113.0 by admin (scraper",
		"1 act more in the last hour: caddy rate-limit audit lists them.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("expected %q in\n%s", want, out)
		}
	}
	for _, never := range []string{"crawlers refused", "quiet", "203.0.113.6", "\x1b"} {
		if strings.Contains(out, never) {
			t.Errorf("expected no %q in\n%s", never, out)
		}
	}
}

// A word that names no client stops a command before it acts on any.
func TestWrongWordStopsTheCommand(t *testing.T) {
	for _, command := range []string{"ban 192.0.2.200 --reason night scraper", "raise 5x 192.0.2.200 scraper", "allow 192.0.2.200 scraper", "reset 203.0.113.77 scraper"} {
		s := sample.New(clock)
		before := len(s.Acts())
		if _, errs, err := run(s, strings.Fields(command)...); err == nil || !strings.Contains(errs, "nothing was done") {
			t.Errorf("%s: %q, %v", command, errs, err)
		}
		if acts := len(s.Acts()); acts != before {
			t.Errorf("%s: %d acts were done", command, acts-before)
		}
	}
}
