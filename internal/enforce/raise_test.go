package enforce_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/rules"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
	"github.com/caddy-tally/caddy-tally/internal/testing/network"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/storage"
)

// sharedStore is a store of several machines.
type sharedStore struct{ *network.Database }

func (sharedStore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "rate_limit.stores.raised"}
}
func (sharedStore) Counts() string   { return "raised" }
func (sharedStore) Identity() string { return "raised" }
func (sharedStore) Address() string  { return "server:1" }

func (s sharedStore) Open(ctx context.Context, _ time.Duration) (storage.Store, error) {
	return s.Database.Open(ctx)
}

// virtualClock is the clock of a bubble.
type virtualClock struct{ start time.Time }

func (c virtualClock) Elapsed() int64 { return int64(time.Since(c.start)) }
func (c virtualClock) Read() (r storage.Reading, elapsed int64) {
	now := time.Now().UnixNano()
	return storage.Reading{Wall: now, Steady: now, Source: storage.Source{1}, Shared: true}, c.Elapsed()
}

// raisedMachine is a handler with an engine of its own. Its rules come from the store.
func raisedMachine(t *testing.T, h *enforce.Handler, store sharedStore, secret string) *instance.Instance {
	t.Helper()
	h.Config.Settings.Address = store.Address()
	i := instance.NewWith(instance.Settings{Store: t.Name() + fmt.Sprint(rand.Int64()), Kind: "shared", Address: store.Address(), Secret: secret}, store,
		func(o *engine.Options) { o.Clock = virtualClock{time.Now()} })
	<-i.Engine.Ready()
	h.Config.Instance.Store(i)
	h.Config.Stated.Begin(&i.Shared)
	return i
}

// naiveRules is the rules of a test, in any order.
type naiveRules []rules.Rule

// strongest returns the rule of some actions for an address that has the longest prefix, or nil.
func (all naiveRules) strongest(addr netip.Addr, now time.Time, counts func(rules.Rule) bool) (found *rules.Rule) {
	for i := range all {
		r := &all[i]
		if !counts(*r) || !r.Target.Network.Contains(addr) || !r.Until.IsZero() && !now.Before(r.Until) {
			continue
		}
		if found == nil || r.Target.Network.Bits() > found.Target.Network.Bits() || r.Target == found.Target && r.Action == rules.Allow {
			found = r
		}
	}
	return found
}

// amountOf returns how much an address may have of a limit in a zone: 0 if it is banned, -1 if it is allowed.
func (all naiveRules) amountOf(addr netip.Addr, zone string, amount int, now time.Time) int {
	if r := all.strongest(addr, now, func(r rules.Rule) bool { return r.Action != rules.Raise }); r != nil {
		return map[rules.Action]int{rules.Ban: 0, rules.Allow: -1}[r.Action]
	}
	for _, z := range []string{zone, ""} {
		if r := all.strongest(addr, now, func(r rules.Rule) bool { return r.Action == rules.Raise && r.Target.Zone == z }); r != nil {
			return max((amount*r.Percent+99)/100, 1)
		}
	}
	return amount
}

// put replaces the rule with the action and the target, as the store does.
func (all *naiveRules) put(r rules.Rule) {
	all.drop(r)
	if r.Action == rules.Ban {
		all.drop(rules.Rule{Action: rules.Allow, Target: r.Target})
	}
	*all = append(*all, r)
}

func (all *naiveRules) drop(like rules.Rule) {
	var kept naiveRules
	for _, r := range *all {
		if r.Action != like.Action || r.Target != like.Target {
			kept = append(kept, r)
		}
	}
	*all = kept
}

// Two machines on one store admit exactly what rules give, whatever operators do on either: a naive model says
// how many requests each client may send.
func TestRaisesAreExact(t *testing.T) {
	for seed := range uint64(proof.Times(1, 300)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testRaises(t, rand.New(rand.NewPCG(seed, 162))) })
	}
}

func testRaises(t *testing.T, random *rand.Rand) {
	const amountA, amountB = 10, 7
	var handlers [2]*enforce.Handler
	for i := range handlers {
		app := &config.App{RulesFile: filepath.Join(t.TempDir(), "rules")}
		handlers[i] = handlertest.Provision(t, handlertest.Compile(t, app), handlertest.Parse(t, `
			zone a {
				match path /a
				limit 10/24h fixed
			}
			zone b {
				match path /b
				limit 7/24h fixed
			}`))
	}
	secret := filepath.Join(t.TempDir(), "tally.key")
	if err := os.WriteFile(secret, []byte(strings.Repeat("secret ", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	bubble.Test(t, func(t *testing.T) {
		store := sharedStore{network.New()}
		var machines [2]*instance.Instance
		for i, h := range handlers {
			machines[i] = raisedMachine(t, h, store, secret)
			defer machines[i].Destruct()
		}
		var model naiveRules
		admitted, day := make(map[string]int), int64(-1)
		targets := []string{"192.0.2.1", "192.0.2.2", "192.0.2.0/24", "192.0.0.0/16"}
		for step := range proof.Sample(10, 30) {
			// An operator changes something on one of the machines.
			target, err := rules.ParseTarget(targets[random.IntN(len(targets))])
			if err != nil {
				t.Fatal(err)
			}
			r := rules.Rule{Action: min(rules.Action(1+random.IntN(8)), rules.Raise), Target: target}
			if r.Action == rules.Raise {
				r.Percent = []int{50, 100, 150, 300, 500, 1}[random.IntN(6)]
				r.Target.Zone = []string{"", "a", "b"}[random.IntN(3)]
			}
			if random.IntN(2) == 0 {
				r.Until = time.Now().Add(time.Duration(1+random.IntN(300)) * time.Minute).Truncate(time.Second).UTC()
			}
			by := machines[random.IntN(2)]
			if random.IntN(4) > 0 {
				err = by.Shared.Put(t.Context(), []rules.Rule{r})
				model.put(r)
			} else {
				_, err = by.Shared.Drop(t.Context(), r.Action, r.Target)
				model.drop(r)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second + time.Duration(random.IntN(90))*time.Minute) // the news have come

			for _, client := range targets[:2] {
				for zone, amount := range map[string]int{"a": amountA, "b": amountB} {
					if today := time.Now().Unix() / 86400; today != day {
						day = today
						clear(admitted)
					}
					now, addr := time.Now(), netip.MustParseAddr(client)
					may, key := model.amountOf(addr, zone, amount, now), client+zone
					passed, tries := 0, 3
					if random.IntN(2) == 0 {
						tries = 30 // more than anybody may have
					}
					for i := range 2 * tries {
						if _, w, err := handlertest.Get(handlers[(i+step)%2], "/"+zone, client, handlertest.Answering(200)); err == nil && w.Code == 200 {
							passed++
						}
					}
					switch {
					case may < 0 && passed != 2*tries:
						t.Fatalf("step %d: %s is allowed in %s, and %d of %d passed: %v", step, client, zone, passed, 2*tries, model)
					case may < 0:
						continue
					}
					admitted[key] += passed
					free := max(may-(admitted[key]-passed), 0)
					if passed > free || tries == 30 && passed != free {
						t.Fatalf("step %d: %s has %d free of %d in %s, and %d of %d passed: %v", step, client, free, may, zone, passed, 2*tries, model)
					}
				}
			}
		}
	})
}
