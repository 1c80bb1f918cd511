package console

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

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
