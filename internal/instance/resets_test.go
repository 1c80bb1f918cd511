package instance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Resets of other keys drop no leases but those of these keys: a customer who uses up a quota meanwhile, over
// hours or at once, loses at most a hundredth of it, on one process and on several.
func TestResetsOfOthersCostACustomerLittle(t *testing.T) {
	const amount, resets = 3000, 100
	for _, c := range []struct {
		name      string
		processes int
		isShared  bool
		over      time.Duration
	}{
		{"one process", 1, false, 0}, {"two processes", 2, false, 0}, {"two machines", 2, true, 0},
		{"two machines, over an hour", 2, true, time.Hour},
		{"one process, over an hour", 1, false, time.Hour}, {"two processes, over an hour", 2, false, time.Hour},
	}[:proof.Sample(4, 6)] {
		t.Run(c.name, func(t *testing.T) {
			p := place(t.TempDir())
			bubble.Test(t, func(t *testing.T) {
				rate, err := limiter.New(limiter.Params{Amount: amount, Window: 24 * time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				limit, shared := &engine.Limit{ID: 7, Rate: rate}, newFleetStore()
				var all []*Instance
				for range c.processes {
					inst := p.begin(t, "a")
					if c.isShared {
						end(t, inst)
						inst = NewWith(Settings{Store: fmt.Sprint(p, len(all)), Counts: fmt.Sprint(p, len(all)), Kind: "shared", Address: "server:1", Secret: p.secret()},
							shared, func(o *engine.Options) { o.Clock = virtualClock{time.Now()} })
						<-inst.Engine.Ready()
					}
					defer end(t, inst)
					all = append(all, inst)
				}
				ask := func(n int, key string) bool {
					return all[n%len(all)].Engine.Decide(context.Background(), nil, []engine.Debit{{Limit: limit, Key: []byte(key), Cost: 1}}).Allowed
				}
				passed := 0
				for n := range amount {
					if ask(n, string(acme)) {
						passed++
					}
					if n%(amount/resets) == 0 {
						other := fmt.Sprintf("%cother %d", identity.TagAPIKey, n)
						ask(n/2, other)
						if err := all[n/3%len(all)].Engine.Reset(t.Context(), []engine.Reset{{Limit: limit, Key: other}}); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(c.over / amount)
				}
				for n := range 2 * amount {
					if ask(n, string(acme)) {
						passed++
					}
				}
				if passed > amount || passed < amount*99/100 {
					t.Errorf("%d of a quota of %d passed", passed, amount)
				}
			})
		})
	}
}
