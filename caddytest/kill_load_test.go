package caddytest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// killZone is a zone that clients load, each at the path of its name.
type killZone struct {
	name   string
	limits []admissions.Limit
	most   int64 // the highest cost there is
	share  int   // of the requests, in percent
	// key returns a key, one of a few that are used in the life of a number.
	key func(c *killClient) string
}

// killZones are what there is. Windows are short, so that they end while nobody
// runs, but for one that is longer than all lives together. The flood makes rows
// for checkpoints and sweeps. In the short form, a few requests a second use up
// the limits: a slow machine sends no more.
var killZones = []killZone{
	{"sliding", []admissions.Limit{admissions.Sliding(20, 2*time.Second)}, 3, 15, oneOf(deep(1, 6))},
	{"fixed", []admissions.Limit{admissions.Fixed(deep(12, 30), 3*time.Second)}, 1, 10, oneOf(deep(1, 4))},
	{"bucket", []admissions.Limit{admissions.TokenBucket(deep(4, 20), time.Second, deep(12, 40))}, 3, 10, oneOf(deep(1, 4))},
	{"both", []admissions.Limit{admissions.Sliding(10, time.Second), admissions.Fixed(60, 20*time.Second)}, 1, 10, oneOf(deep(1, 4))},
	{"long", []admissions.Limit{admissions.Sliding(100, 24*time.Hour)}, 1, 15, longLived},
	{"flood", []admissions.Limit{admissions.Sliding(5, time.Second)}, 1, 40, fresh},
}

const flood = 5 // the index of that zone

// killConfig is a Caddyfile with these zones, cleaned up as often as it can be.
func killConfig() string {
	var b strings.Builder
	for _, z := range killZones {
		fmt.Fprintf(&b, "zone %s {\nmatch path /%[1]s\nper key {http.request.header.X-Key}\ncost {http.request.header.X-Cost}\n", z.name)
		for i, l := range z.limits {
			fmt.Fprintf(&b, "limit %v name %s-%d\n", l, z.name, i)
		}
		b.WriteString("}\n")
	}
	return options("rate_limit {\nstore_timeout 1m\ncleanup_interval 1s\n}") + site("rate_limit {\n"+b.String()+"}\nrespond hello")
}

// deep returns one of two numbers, the second with PROOF.
func deep(quick, thorough int64) int64 {
	if proof.IsOn() {
		return thorough
	}
	return quick
}

// oneOf has n keys, the same in all lives.
func oneOf(n int64) func(*killClient) string {
	return func(c *killClient) string { return fmt.Sprint(c.rng.Int64N(n)) }
}

// longLived has a new key every few lives, and comes back to old ones, which are
// used up.
func longLived(c *killClient) string {
	newest := c.process.number / 4
	if c.rng.IntN(2) == 0 {
		return fmt.Sprint(newest)
	}
	return fmt.Sprint(c.rng.IntN(newest + 1))
}

// fresh has a key for each request, until they begin again.
func fresh(c *killClient) string { return fmt.Sprint(c.process.fresh.Add(1) % 50_000) }

// killClient sends requests to a process, one after another.
type killClient struct {
	process *killProcess
	rng     *rand.Rand
	heavy   bool // it sends to the flood only
}

// killProcess is one life of a server.
type killProcess struct {
	*server
	number  int
	prefix  string      // of all keys: which database it has
	shared  atomic.Bool // another process had the same database in its life
	fresh   *atomic.Int64
	endLoad func()
}

// load has n clients send requests until the load is ended.
func (p *killProcess) load(l *ledger, rng *rand.Rand, n int, heavy bool) {
	clients := make([]killClient, n)
	for i := range clients {
		clients[i] = killClient{process: p, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), heavy: heavy}
	}
	p.endLoad = repeat(n, func(i int) { clients[i].ask(l) })
}

// ask sends a request and notes what is answered. A pause spares the computer in the short form.
func (c *killClient) ask(l *ledger) {
	p, zone := c.process, killZones[c.zone()]
	acc := account{zone.name, p.prefix + zone.key(c)}
	l.ask(p.server, acc, 1+c.rng.Int64N(zone.most), func(o *observed) { o.process, o.alone = p.number, !p.shared.Load() })
	if !c.heavy && !proof.IsOn() {
		time.Sleep(5 * time.Millisecond)
	}
}

func (c *killClient) zone() int {
	if c.heavy {
		return flood
	}
	n := c.rng.IntN(100)
	for i, z := range killZones {
		if n -= z.share; n < 0 {
			return i
		}
	}
	panic("the shares are less than 100")
}
