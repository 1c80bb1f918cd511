package rules

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func mustRead(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func rule(t *testing.T, line string) Rule {
	t.Helper()
	s, err := parseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

func TestAddMakesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "rules")
	if err := Add(path, now, rule(t, "ban 203.0.113.7 # scraper"), rule(t, "allow api-key:acme")); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, path); got != fileHead+"ban 203.0.113.7 # scraper\nallow api-key:acme\n" {
		t.Errorf("the file is %q", got)
	}
}

func TestAddAndRemoveKeepOtherLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	before := `# ours

  ban   203.0.113.0/24   # as it is written
ban 203.0.113.7 # old
# theirs
allow 203.0.113.7 until 2026-12-01
allow 203.0.113.8
ban key:ended until 2026-10-23T12:00:00Z
ban key:long-ended until 2026-10-23T11:59:59Z
# the last line`
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Add(path, now, rule(t, "ban 203.0.113.7 until 2026-11-23 # new"), rule(t, "allow key:a"), rule(t, "ban 203.0.113.9")); err != nil {
		t.Fatal(err)
	}
	want := `# ours

  ban   203.0.113.0/24   # as it is written
ban 203.0.113.7 until 2026-11-23 # new
# theirs
allow 203.0.113.8
ban key:ended until 2026-10-23T12:00:00Z
# the last line
allow key:a
ban 203.0.113.9
`
	if got := mustRead(t, path); got != want {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
	if err := Add(path, now, rule(t, "allow 203.0.113.9")); err != nil { // in addition to its ban
		t.Fatal(err)
	}
	removed, err := Remove(path, Ban, addressTarget(netip.MustParseAddr("203.0.113.9")))
	if err != nil || len(removed) != 1 || removed[0].String() != "ban 203.0.113.9" {
		t.Errorf("removed %v, %v", removed, err)
	}
	if got := mustRead(t, path); got != strings.Replace(want, "ban 203.0.113.9", "allow 203.0.113.9", 1) {
		t.Errorf("the file is %q", got)
	}
	if removed, err = Remove(path, 0, network("203.0.113.0/24")); err != nil || len(removed) != 1 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if removed, err = Remove(path, 0, network("203.0.113.0/24")); err != nil || removed != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	if rules, err := List(path); err != nil || len(rules) != 5 {
		t.Errorf("left are %v, %v", rules, err)
	}
}

func TestRemoveFromNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	if removed, err := Remove(path, 0, network("203.0.113.0/24")); err != nil || removed != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestEditsThatCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	good := rule(t, "ban 203.0.113.7")
	for _, bad := range []Rule{
		{},
		{Action: Ban},
		{Action: Ban, Target: good.Target, Reason: "a\nban 0.0.0.0/0"},
		{Action: Ban, Target: good.Target, Reason: strings.Repeat("x", maxLine)},
		{Action: Ban, Target: Target{Kind: Key, Text: strings.Repeat("\x00", maxLine/4)}},
		{Action: Ban, Target: Target{Kind: Session, Text: "1\nban 0.0.0.0/0"}},
		{Action: Ban, Target: Target{Network: netip.MustParsePrefix("203.0.113.7/24")}},
		{Action: Ban, Target: good.Target, Until: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if err := Add(path, now, good, bad); err == nil {
			t.Errorf("%+v was added", bad)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made for bad rules")
	}
	text := "ban 203.0.113.8\nbann 203.0.113.9\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "rules: " + path + `: line 2: got "bann", expected ban, allow or raise`
	_, removeErr := Remove(path, 0, good.Target)
	_, listErr := List(path)
	for _, err := range []error{Add(path, now, good), removeErr, listErr} {
		if err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if got := mustRead(t, path); got != text {
		t.Errorf("the file has become %q", got)
	}
}

// All texts stay on one line.
func TestNoLineIsInjected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	odd := Rule{Action: Ban, Target: Target{Kind: Key, Text: "a\" # \nban 0.0.0.0/0\n"}}
	if err := Add(path, now, odd); err != nil {
		t.Fatal(err)
	}
	if rules, err := List(path); err != nil || len(rules) != 1 || rules[0] != odd {
		t.Errorf("the rules are %v, %v", rules, err)
	}
}

func TestAddsAtOnceLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	var adds sync.WaitGroup
	for i := range 4 {
		adds.Go(func() {
			for j := range 5 {
				if err := Add(path, now, rule(t, fmt.Sprintf("ban 203.0.%d.%d", i, j))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	adds.Wait()
	if rules, err := List(path); err != nil || len(rules) != 20 {
		t.Errorf("%d rules, %v", len(rules), err)
	}
}

func TestFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	var reports []error
	file, err := Open(path, func(_ *Set, err error) { reports = append(reports, err) })
	if err != nil {
		t.Fatal(err)
	}
	want := func(bans, times int) {
		t.Helper()
		file.Look()
		if got := file.Value().InForce(Ban, now); got != bans || len(reports) != times {
			t.Errorf("%d bans are in force, want %d; told %v", got, bans, reports)
		}
	}
	want(0, 0)
	if err := Add(path, now, rule(t, "ban 203.0.113.7")); err != nil {
		t.Fatal(err)
	}
	want(1, 1)
	if err := os.WriteFile(path, []byte("ban 203.0.113.7\nban\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(1, 2)
	if trouble := file.Trouble(); trouble == nil || !strings.Contains(trouble.Err.Error(), "line 2: nothing follows ban") {
		t.Errorf("the trouble is %v", trouble)
	}
	if err := os.Remove(path); err != nil { // an operator lifts all bans
		t.Fatal(err)
	}
	want(0, 3)
	if trouble := file.Trouble(); trouble != nil {
		t.Errorf("the trouble goes on: %v", trouble.Err)
	}
}

// Of several rules about one target, the last one added counts.
func TestAddOfSeveralAboutOneTarget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	if err := Add(path, now, rule(t, "allow key:a"), rule(t, "ban key:a # first"), rule(t, "ban key:a # second"),
		rule(t, "ban key:b"), rule(t, "allow key:b")); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, path); got != fileHead+"ban key:a # second\nban key:b\nallow key:b\n" {
		t.Errorf("the file is %q", got)
	}
}

func TestAddIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(path, []byte(strings.Repeat("ban key:a\n", maxRules)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Add(path, now, rule(t, "ban key:b"), rule(t, "ban key:a")); err != nil { // one of them is left
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("ban key:a\n", maxRules)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Add(path, now, rule(t, "ban key:b")); err == nil || !strings.Contains(err.Error(), "more than 1000000 rules") {
		t.Errorf("error is %v", err)
	}
}

// Raises of one target in different zones are different rules, and a ban leaves them.
func TestEditRaises(t *testing.T) {
	text, err := add([]byte("raise 5x key:a # kept\nraise 2x key:a zone b\nallow key:a\n"), now, []Rule{
		{Action: Raise, Percent: 300, Target: Target{Kind: Key, Text: "a", Zone: "b"}, Reason: "new"},
		{Action: Ban, Target: Target{Kind: Key, Text: "a"}},
	})
	if want := "raise 5x key:a # kept\nraise 3x key:a zone b # new\nban key:a\n"; err != nil || string(text) != want {
		t.Errorf("the file is %q, %v, want %q", text, err, want)
	}
	for _, bad := range []Rule{
		{Action: Raise, Target: Target{Kind: Key, Text: "a"}}, {Action: Raise, Percent: 100_001, Target: Target{Kind: Key, Text: "a"}},
		{Action: Ban, Percent: 500, Target: Target{Kind: Key, Text: "a"}}, {Action: Ban, Target: Target{Kind: Key, Text: "a", Zone: "b"}},
	} {
		if bad.check() == nil {
			t.Errorf("%v passes", bad)
		}
	}
}
