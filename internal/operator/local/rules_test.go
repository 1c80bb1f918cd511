package local

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/storage"
)

// rulesInForce returns the metric of rules in force with an action.
func rulesInForce(t *testing.T, action string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := meter.Register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "caddy_rate_limit_statements" && metric.GetLabel()[0].GetValue() == action {
				return metric.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// ruled returns a configuration with a rules file that does not exist yet, and its log.
func ruled(t *testing.T) (*enforce.Config, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	c := &enforce.Config{Tenant: enforce.Tenant{Log: zap.New(core)}}
	if err := c.OpenRules(filepath.Join(t.TempDir(), "new", "rules"), c.Log); err != nil {
		t.Fatal(err)
	}
	return c, logs
}

func TestRulesAreInForceAtOnce(t *testing.T) {
	cfg, logs := ruled(t)
	addr := netip.MustParseAddr("203.0.113.9")
	ban := rules.Rule{Action: rules.Ban, Target: rules.NetworkOf(netip.PrefixFrom(addr, 32)), Reason: "scraper"}
	wantFound := func(want *rules.Rule) {
		t.Helper()
		got := cfg.Rules.Value().FindAddress(addr, true, time.Now())
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("in force is %v, want %v", got, want)
		}
	}
	if err := (runningConfig{Config: cfg}).addRules("admin", ban); err != nil {
		t.Fatal(err)
	}
	wantFound(&ban)
	if listed, err := (runningConfig{Config: cfg}).listRules(); err != nil || len(listed) != 1 || listed[0] != ban {
		t.Errorf("listed are %v, %v", listed, err)
	}
	if file := (runningConfig{Config: cfg}).describeRules(); file.Path != cfg.Rules.Path() || file.Bans != 1 || file.Allowances != 0 || file.Trouble != nil {
		t.Errorf("the file is %+v", file)
	}
	for _, want := range []int{1, 0} {
		if removed, err := (runningConfig{Config: cfg}).removeRules("admin", rules.Ban, ban.Target); err != nil || len(removed) != want {
			t.Errorf("removed %v, %v, want %d", removed, err, want)
		}
	}
	wantFound(nil)
	lines := logs.FilterField(zap.String("by", "admin")).All()
	if len(lines) != 2 {
		t.Errorf("the changes are logged as %v", logs.All())
	}
	for _, line := range logs.All() {
		for _, field := range line.Context {
			if strings.Contains(field.String, addr.String()) {
				t.Errorf("the log has the address: %v", line)
			}
		}
	}
}

func TestRulesOfABadFile(t *testing.T) {
	cfg, _ := ruled(t)
	ban := rules.Rule{Action: rules.Ban, Target: rules.NetworkOf(netip.MustParsePrefix("203.0.113.9/32"))}
	if listed, err := (runningConfig{Config: cfg}).listRules(); err != nil || listed != nil {
		t.Errorf("without a file: %v, %v", listed, err)
	}
	if err := (runningConfig{Config: cfg}).addRules("admin", ban); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.Rules.Path(), []byte("bann\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Rules.Look()
	if err := (runningConfig{Config: cfg}).addRules("admin", ban); err == nil || !strings.Contains(err.Error(), "line 1: got \"bann\"") {
		t.Errorf("error is %v", err)
	}
	if file := (runningConfig{Config: cfg}).describeRules(); file.Bans != 1 || file.Trouble == nil || !strings.Contains(file.Trouble.Reason, "line 1") {
		t.Errorf("the file is %+v", file)
	}
}

// A manual change is in force within a second, and the file isn't read after the end.
func TestRulesAreWatched(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg, logs := ruled(t)
		cfg.WatchRules()
		synctest.Wait()
		if err := os.Mkdir(filepath.Dir(cfg.Rules.Path()), 0o700); err != nil {
			t.Fatal(err)
		}
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(cfg.Rules.Path(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		write("ban 203.0.113.9\nallow 203.0.113.8 until 2000-01-01T00:00:10Z\n") // bubbles begin at the start of the year
		if n := rulesInForce(t, "allow"); n != 1 {
			t.Errorf("%v allowances are in force", n)
		}
		if line := logs.FilterMessage("the file of bans and allowances was read again").All(); len(line) != 1 || line[0].ContextMap()["bans"] != int64(1) || line[0].ContextMap()["allowances"] != int64(1) {
			t.Errorf("the log has %v", line)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := rulesInForce(t, "allow"); n != 0 {
			t.Errorf("%v allowances are in force when theirs has ended", n)
		}
		write("ban 203.0.113.9\nallow 0.0.0.0/0\n")
		if warned := logs.FilterMessage("everybody is allowed, so no limit refuses anybody").All(); len(warned) != 1 || warned[0].ContextMap()["rule"] != "allow 0.0.0.0/0" {
			t.Errorf("allow 0.0.0.0/0 is warned of with %v", warned)
		}
		write("ban 203.0.113.9\n")
		write("ban\n")
		if n := rulesInForce(t, "ban"); n != 1 {
			t.Errorf("%v bans are in force after a mistake", n)
		}
		if lines := logs.FilterLevelExact(zap.ErrorLevel).All(); len(lines) != 1 {
			t.Errorf("a mistake is logged as %v", lines)
		}
		cfg.Stop()
		write("ban 203.0.113.7\nban 203.0.113.8\n")
		if n := cfg.Rules.Value().InForce(rules.Ban, time.Now()); n != 1 {
			t.Errorf("%d bans are in force after the end", n)
		}
	})
}

// Concurrent changes of the file, by the app or by others, lose nothing.
func TestRulesAreAddedAtOnce(t *testing.T) {
	cfg, _ := ruled(t)
	var adds sync.WaitGroup
	for i := range byte(4) {
		adds.Go(func() {
			for j := range byte(5) {
				s := rules.Rule{Action: rules.Ban, Target: rules.NetworkOf(netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, i, j}), 32))}
				if err := (runningConfig{Config: cfg}).addRules("admin", s); err != nil {
					t.Error(err)
				}
				if cfg.Rules.Value().FindAddress(s.Target.Network.Addr(), true, time.Now()) == nil {
					t.Errorf("%v is not in force", s)
				}
			}
		})
	}
	adds.Wait()
	if n := cfg.Rules.Value().InForce(rules.Ban, time.Now()); n != 20 {
		t.Errorf("%d bans are in force, want 20", n)
	}
}

// Commands and the file use the same names of clients.
func TestOrdersAndStatementsNameTargetsAlike(t *testing.T) {
	for client, want := range map[string]rules.Target{
		"203.0.113.9":              rules.NetworkOf(netip.MustParsePrefix("203.0.113.9/32")),
		"api-key:acme/web":         {Kind: rules.APIKey, Text: "acme/web"},
		"key:Jane Doe":             {Kind: rules.Key, Text: "Jane Doe"},
		`key:"Jane \"J\" # Doe"`:   {Kind: rules.Key, Text: `Jane "J" # Doe`},
		"session:1f0c9a2b7d4e6f80": {Kind: rules.Session, Text: "1f0c9a2b7d4e6f80"},
	} {
		target, err := operator.ParseTarget(client)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := rules.ParseTarget(target.String()); err != nil || got != want {
			t.Errorf("%s is about %v in the file, %v, want %v", client, got, err, want)
		}
		if again, err := operator.ParseTarget(want.String()); err != nil || again != target {
			t.Errorf("%v of the file is %+v, %v, want %+v", want, again, err, target)
		}
	}
}

// An operator who disconnects while the store is being changed isn't told that nothing was changed.
func TestRulesWhoseOutcomeIsUnknown(t *testing.T) {
	cfg := &enforce.Config{Tenant: enforce.Tenant{Settings: instance.Settings{Address: "server:1"}}}
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded, storage.ErrUnknownOutcome} {
		if err := (runningConfig{Config: cfg}).ruleError(cause); !strings.Contains(err.Error(), "it isn't known whether that has changed anything") {
			t.Errorf("%v: %v", cause, err)
		}
	}
}
