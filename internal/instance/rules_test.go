package instance

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/stores"
	"github.com/caddy-tally/caddy-tally/storage"
)

// machineWith starts an instance on a store, like a machine whose secret file has some lines.
func machineWith(t *testing.T, store stores.Store, lines ...string) *Instance {
	t.Helper()
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.Repeat(line, 40) + "\n")
	}
	path := filepath.Join(t.TempDir(), "tally.key")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	inst := New(Settings{Store: t.Name() + path, Kind: "shared", Address: "server:1", Secret: path}, store)
	t.Cleanup(func() { _ = inst.Destruct() })
	<-inst.Engine.Ready()
	if err := inst.Stats().Cause; err != nil {
		t.Fatal(err)
	}
	return inst
}

// stateLines makes a machine add some rules, one after the other.
func stateLines(t *testing.T, inst *Instance, lines ...string) {
	t.Helper()
	for _, line := range lines {
		stated, err := rules.ParseRule(line)
		if err == nil {
			err = inst.Shared.Put(t.Context(), []rules.Rule{stated})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mustState fails the test unless a newly started machine reads these rules, all of them sealed
// with the line in use.
func mustState(t *testing.T, inst *Instance, lines ...string) {
	t.Helper()
	var got []string
	for _, stated := range inst.Shared.List() {
		got = append(got, stated.String())
	}
	older := inst.Shared.countOlder()
	if strings.Join(got, "\n") != strings.Join(lines, "\n") || older > 0 {
		t.Errorf("the rules are %q, %d of them under an older line; want %q under the one in use", got, older, lines)
	}
}

// Resealed rules are unchanged: an earlier ban doesn't lift an allowance.
func TestRulesSealedAgain(t *testing.T) {
	store := newFleetStore()
	lines := []string{"allow 203.0.113.7 until 2099-01-01", "ban 203.0.113.7"}
	stateLines(t, machineWith(t, store, "a"), lines[1])
	rotated := machineWith(t, store, "b", "a")
	if n := rotated.Shared.countOlder(); n != 1 {
		t.Fatalf("%d rules are sealed under an older line, want 1", n)
	}
	stateLines(t, rotated, lines[0])
	if err := rotated.Shared.sealAgain(); err != nil {
		t.Fatal(err)
	}
	mustState(t, machineWith(t, store, "b", "a"), lines...)
}

// A machine that reseals rules, before it hears of another machine's change, doesn't undo the
// change.
func TestRulesChangedWhileSealedAgain(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *Instance, rules.Target){
		"removed": func(t *testing.T, inst *Instance, target rules.Target) {
			if n, err := inst.Shared.Drop(t.Context(), rules.Ban, target); n != 1 || err != nil {
				t.Fatalf("removed %d, %v", n, err)
			}
		},
		"prolonged": func(t *testing.T, inst *Instance, _ rules.Target) {
			stateLines(t, inst, "ban 203.0.113.7 until 2099-01-01")
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newFleetStore()
			stateLines(t, machineWith(t, store, "a"), "ban 203.0.113.7 until 2098-01-01")
			one, late := machineWith(t, store, "b", "a"), machineWith(t, store, "b", "a")
			s := &late.Shared
			s.mu.Lock()
			notes, known := maps.Clone(s.notes), maps.Clone(s.known)
			s.mu.Unlock()
			target, err := rules.ParseTarget("203.0.113.7")
			if err != nil {
				t.Fatal(err)
			}
			change(t, one, target)
			s.mu.Lock()
			s.notes, s.known = notes, known // it hasn't heard of it
			s.mu.Unlock()
			if err := late.Shared.sealAgain(); err != nil {
				t.Fatal(err)
			}
			var want []string
			if name == "prolonged" {
				want = append(want, "ban 203.0.113.7 until 2099-01-01")
			}
			mustState(t, machineWith(t, store, "b", "a"), want...)
		})
	}
}

// A rule with a word of a later version is no rule here: it neither bans nor allows, and the others hold. This is what
// a build without raises does with one. The machine that has put it still has it.
func TestRulesOfALaterVersion(t *testing.T) {
	store := newFleetStore()
	inst := machineWith(t, store, "a")
	stateLines(t, inst, "ban 203.0.113.7", "raise 5x 203.0.113.8 zone login")
	c := inst.Shared.newChanges()
	c.note(storage.Note{Name: storage.Key{1}, Version: 1}, "lend 5x 203.0.113.9", time.Time{})
	if err := inst.Engine.PutNotes(t.Context(), c.list()); err != nil {
		t.Fatal(err)
	}
	late := machineWith(t, store, "a")
	mustState(t, late, "ban 203.0.113.7", "raise 5x 203.0.113.8 zone login")
	set, now := late.Shared.Set.Load(), time.Now()
	if found := set.FindAddress(netip.MustParseAddr("203.0.113.9"), true, now); found != nil {
		t.Errorf("found %v", found)
	}
	if n, err := late.Shared.Drop(t.Context(), rules.Raise, rules.NetworkOf(netip.MustParsePrefix("203.0.113.8/32")).In("login")); n != 1 || err != nil {
		t.Errorf("removed %d raises, %v", n, err)
	}
}
