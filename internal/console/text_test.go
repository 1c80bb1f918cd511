package console

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1: "1s", time.Second: "1s", 59*time.Second + 1: "1m", 90 * time.Second: "1m 30s", 10 * time.Minute: "10m", 10*time.Minute + 59*time.Second: "10m",
		time.Hour: "1h", 90 * time.Minute: "1h 30m", 25 * time.Hour: "1d 1h", 400 * 24 * time.Hour: "400d", math.MaxInt64: "106751d",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{4 * time.Minute: "in 4m", 0: "now", -time.Millisecond: "now", -time.Hour: "1h ago"} {
		if got := fromNow(noon.Add(d), noon); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestMoments(t *testing.T) {
	for at, want := range map[time.Time]string{
		noon.Add(time.Hour):     noon.Add(time.Hour).Local().Format("2006-01-02 15:04:05") + " (in 1h)",
		noon.AddDate(900, 0, 0): noon.AddDate(900, 0, 0).Local().Format("2006-01-02 15:04:05"),
	} {
		if got := moment(at, noon); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff𝄞")
	f.Fuzz(func(t *testing.T, s string) {
		if got := printable(s); got != allPrintable(got) {
			t.Errorf("got %q", got)
		}
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var shown bytes.Buffer
		if err := wording.WriteJSON(&shown, s); err != nil {
			t.Fatal(err)
		}
		var want, got string
		line := strings.TrimSuffix(shown.String(), "\n")
		if json.Unmarshal(encoded, &want) != nil || json.Unmarshal([]byte(line), &got) != nil || want != got || line != allPrintable(line) {
			t.Errorf("got %q of %q", line, encoded)
		}
	})
}

// What lists print of a client is a word for a shell, alone or within completion that removes the outer
// quotes, and names the same client when it is read.
func FuzzPasted(f *testing.F) {
	for _, value := range []string{
		"alice", "$(id)", "$(id) x", "`id`", "a'b", `"victim"`, `\`, `a\\b`, `"`, "-x", "key:x", "tag:123456", "ref:x", "0.0.0.0/0", "api-key:x",
		"\n", "\x1b[2J", "\xff", "é", "\u202e", "e\u0301", "!1", "%PATH%", " a ", "", strings.Repeat("$", 127),
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		want := operator.Target{Kind: operator.KeyText, Value: value}
		if value == "" || len(value) > 127 {
			return // it has no name, or a digest
		}
		word := pasted(want.String())
		if !operator.IsWord(word) {
			within := strings.TrimSuffix(strings.TrimPrefix(word, "'"), "'")
			if len(within) != len(word)-2 || strings.ContainsAny(within, "'$`!%") || strings.Contains(within, `\"`) || strings.Contains(within, `\\`) || strings.Count(within, `"`) != 2 {
				t.Fatalf("%q is shown as %s, which a shell may read otherwise", value, word)
			}
			word = within
		}
		if strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q is shown as %q", value, word)
		}
		if got, err := operator.ParseTarget(word); err != nil || got != want {
			t.Errorf("%q is shown as %s, and read as %+v, %v", value, word, got, err)
		}
	})
}

// Completion offers only words, and the tags of others.
func TestCompletionOffersOnlyWords(t *testing.T) {
	s := sample.New(clock)
	for _, text := range []string{"$(id)", "`id`", "a b", "-x", "a;b", "é", "3fa9c1"} {
		s.Add(text) // a key, a zone, a ban and a tag
	}
	for _, args := range []string{"ban", "allow", "reset", "explain", "unban", "top", "reset --zone"} {
		out, _, err := run(s, append(append([]string{"__completeNoDesc"}, strings.Fields(args)...), "")...)
		words, _, _ := strings.Cut(out, ":4\n")
		for word := range strings.Lines(words) {
			if !operator.IsWord(strings.TrimSpace(word)) {
				t.Errorf("%s: offers %q", args, word)
			}
		}
		if err != nil || !strings.Contains(words, "3fa9c1\n") {
			t.Errorf("%s: %q, %v", args, out, err)
		}
	}
	if got := wordOf("key:$(id)", "3fa9c1"); got != "tag:3fa9c1" {
		t.Errorf("got %s", got)
	}
}

// A name that doesn't fit is replaced by the client's tag, or stands above its row.
func TestLongNamesAreTags(t *testing.T) {
	long := "key:" + strings.Repeat("a b", 30)
	if got := named(long, "", "3fa9c1"); got.Short != "tag:3fa9c1" || got.Text != pasted(long) {
		t.Errorf("got %+v", got)
	}
	if got := named("key:"+strings.Repeat("b", 70), "", ""); got.Text != "key:"+strings.Repeat("b", 70) || !got.Whole || got.Short != "" {
		t.Errorf("got %+v", got)
	}
	if got := named("", "all together", ""); got.Text != "all together" {
		t.Errorf("got %+v", got)
	}
}

// wide is a service with long names and large numbers.
type wide struct{ *sample.Service }

const longName = "a-name-that-is-much-longer-than-what-fits-into-a-line"

func (w wide) Keys(context.Context, operator.KeysQuery) (keys []operator.Key, err error) {
	for _, client := range []string{"2001:db8:4c1:9::/64", "api-key:" + longName, "key:" + strings.Repeat(longName, 3)} {
		keys = append(keys, operator.Key{Zone: longName, Limit: longName, Text: longName, Client: client, Tag: "3fa9c1", Tier: longName, Used: 12345, Amount: 12345, Refused: 12345, BlockedUntil: new(noon.Add(90 * time.Minute))})
	}
	keys[0].Shadow = true
	return keys, nil
}

func (w wide) Zones(context.Context) ([]operator.Zone, error) {
	counts := operator.Counts{Allowed: 123456789, Refused: 1234567, WouldRefuse: 1234567}
	return []operator.Zone{{Name: longName, Per: "key {http.request.header.X-Tenant}", Counts: counts, When: []operator.Condition{{Text: "everyone over 200/1s"}},
		Limits: []operator.Limit{{Name: longName, Text: "1000/24h burst 10000", Tier: longName, Keys: 123456, Shadow: true, Counts: counts}}}}, nil
}

func (w wide) Bans(context.Context) ([]operator.Rule, error) {
	ban := operator.Rule{Action: "ban", Client: "ref:" + strings.Repeat("y", 64), By: "conduct", Zone: longName, Reason: longName, Until: new(noon.Add(90 * time.Hour))}
	rule := ban
	rule.Client, rule.Tag = "203.0.113.0/24", "3fa9c1"
	return []operator.Rule{ban, rule}, nil
}

func (w wide) Audit(context.Context, operator.AuditQuery) ([]operator.Act, error) {
	return []operator.Act{{At: noon, By: longName, Action: "disallow", Target: "client 5d0c1e22a41b7c09", Reason: longName}}, nil
}

func (w wide) History(context.Context, operator.HistoryQuery) (operator.History, error) {
	estimated := operator.Precision{AtLeast: true}
	return operator.History{
		Points:   []operator.HistoryPoint{{At: noon, Counts: operator.Counts{Allowed: 123456789, Refused: 1234567, Banned: 1234567, WouldRefuse: 1234567}, Units: 123456789, Keys: 123456}},
		Heaviest: []operator.Heavy{{Zone: longName, Limit: longName, Text: longName, Tag: "3fa9c1", Units: 1234567, Refused: 1234567, Precision: estimated}},
	}, nil
}

func (w wide) Usage(_ context.Context, q operator.UsageQuery) (operator.Usage, error) {
	estimated := operator.Precision{AtLeast: true}
	return operator.Usage{Client: q.Client, Days: []operator.UsageDay{{Day: "2026-11-22", Zone: longName, Limit: longName, Units: 1234567, Refused: 1234567, Precision: estimated}}}, nil
}

func (w wide) Refusals(context.Context, operator.RefusalsQuery) (operator.Refusals, error) {
	return operator.Refusals{
		Sampled: 1, Latest: []operator.Refused{{At: noon, Times: 2048, Zone: longName, Limit: longName, Text: longName, Client: "key:" + longName, Tag: "3fa9c1", Reason: "too_costly"}},
		Paths: []operator.RefusedShare{{Text: "/" + longName + "/" + longName, Refused: 2048}}, Agents: []operator.RefusedShare{{Text: longName + longName, Refused: 2048}},
		Clients: []operator.RefusedShare{{Text: longName, Client: "key:" + longName, Tag: "3fa9c1", Refused: 2048, LetIn: 2048}},
	}, nil
}

func (w wide) Explain(context.Context, operator.Question) (operator.Explanation, error) {
	state := operator.LimitState{Zone: longName, Limit: longName, Text: "1000/24h burst 10000", Counts: longName, Tag: "3fa9c1", Used: 123456, Left: 123456, Cost: 1234, Refuses: true, Shadow: true, FreeAt: new(noon.Add(90 * time.Minute))}
	return operator.Explanation{Client: "203.0.113.9", Text: "203.0.113.9", Limits: []operator.LimitState{state}}, nil
}

func (w wide) Status(context.Context) (operator.Status, error) {
	return operator.Status{Started: noon, Stores: []operator.Store{{Kind: "sqlite", Degraded: true, Since: new(noon.Add(-90 * time.Hour)), Keys: 1234567, MaxKeys: 1000000, Evicted: 1234567, Bytes: 1 << 30, Path: "/var/lib/caddy/.local/share/caddy/rate_limit/tally.db"}}}, nil
}

// The tables of all commands fit into 80 columns of a terminal, with names that commands take in whole, and
// nothing is cut for a program that reads them.
func TestTablesFitATerminal(t *testing.T) {
	service := wide{sample.New(clock)}
	tables := map[string]func(wording.Look) string{"key list": func(look wording.Look) string {
		out := new(bytes.Buffer)
		writeTable(out, look, keyColumns, []operator.StoredKey{{Name: longName, Tier: longName, ID: "9a41c07e", Expires: new(noon)}})
		return out.String()
	}}
	for _, args := range looks {
		tables[args[0]] = func(look wording.Look) string {
			out, errs, err := runIn(service, look, "", args...)
			if err != nil {
				t.Errorf("%s: %v, %s", args, err, errs)
			}
			return out
		}
	}
	whole := map[string]string{
		"bans": "\nref:" + strings.Repeat("y", 64) + "\nban", "key list": longName + "\n", "status": "/tally.db\n", "top": "tag:3fa9c1", "blocked": "tag:3fa9c1",
	}
	for name, table := range tables {
		narrow, program := table(wording.Look{Width: 80}), table(wording.Look{})
		for line := range strings.Lines(narrow) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.HasSuffix(line, ".\n") { // a sentence wraps
				t.Errorf("%s: a line has %d characters: %s", name, n, line)
			}
		}
		if strings.Contains(program, "…") || strings.Count(program, "\n") > strings.Count(narrow, "\n") {
			t.Errorf("%s is cut for programs:\n%s", name, program)
		}
		if !strings.Contains(narrow, whole[name]) {
			t.Errorf("%s lacks %q:\n%s", name, whole[name], narrow)
		}
	}
}

// Limits of a request that something refuses aren't said to let it pass.
func TestNextOfLimitsOfARefusedRequest(t *testing.T) {
	s, over := new(session), operator.LimitState{Refuses: true}
	for want, got := range map[string]cell{"has room": s.nextOf(operator.LimitState{}, true), "passes": s.nextOf(operator.LimitState{}, false),
		"never passes": s.nextOf(over, true)} {
		if got.Text != want {
			t.Errorf("got %q, want %q", got.Text, want)
		}
	}
}
