package region_test

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
)

// world is some regions that admit units of one key of one limit, and an exchange between them.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	limit   limiter.Limit
	groups  region.Groups
	now     int64
	down    bool
	faulty  bool
	up      int64 // since when the exchange is available
	rows    map[at]int64
	regions []*place
}

type at struct {
	component region.Component
	group     int64
}

// place is a region with a strict store.
type place struct {
	region.Component
	store     limiter.State
	own       region.Own
	counts    region.Counts
	log       []event // all admitted units
	next      int64   // the next time that it publishes and collects
	published int64   // the time up to which the exchange has the necessary units
	heard     []int64 // the time up to which it knows each region, except hidden units
}

func newWorld(t *testing.T, seed uint64, p limiter.Params, regions int) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), limit: limitOf(t, p), now: start, up: start, rows: make(map[at]int64)}
	w.groups = groupsOf(t, w.limit)
	for i := range regions {
		w.regions = append(w.regions, &place{Component: region.Component{Region: string(rune('a' + i))}, heard: make([]int64, regions), next: start + w.rand.Int64N(5*second)})
	}
	return w
}

// request decides a request in a region, and checks the admitted units.
func (w *world) request(p *place, cost int64) {
	_, foreign := p.counts.Split(p.Region)
	limit, inForce := w.limit, w.groups.InForce(foreign, w.now)
	if cost > limit.Amount()-inForce {
		return
	}
	rest := limit.Less(inForce)
	if g := rest.Claim(&p.store, limiter.Claim{Now: w.now, Min: cost, Want: cost}); g.Units == 0 {
		return
	}
	p.own.Add(w.groups.At(w.now), cost)
	if last := len(p.log) - 1; last >= 0 && p.log[last].at == w.now {
		p.log[last].units += cost
	} else {
		p.log = append(p.log, event{w.now, cost})
	}

	inWindow, unheard := int64(0), int64(0)
	for i, other := range w.regions {
		admitted := other.since(w.begin())
		if inWindow += admitted; other == p && admitted > w.limit.Amount() {
			w.t.Fatalf("region %s admitted %d of %d in a window", p.Region, admitted, w.limit.Amount())
		}
		if other != p {
			unheard += other.since(max(p.heard[i], w.begin()))
			if !w.faulty && !w.down && w.now-p.heard[i] > 12*second && w.now-w.up > 12*second {
				w.t.Fatalf("region %s has not heard of %s for %v", p.Region, other.Region, time.Duration(w.now-p.heard[i]))
			}
		}
	}
	if most := w.limit.Amount() * 5 / 4; inWindow > most+unheard {
		w.t.Fatalf("%d were admitted in a window, want at most %d and the %d that %s had not heard of", inWindow, most, unheard, p.Region)
	}
}

// begin returns when the window began that ends now.
func (w *world) begin() int64 {
	if w.limit.Algorithm() == limiter.Fixed {
		return w.now - w.now%int64(w.limit.Window())
	}
	return w.now - int64(w.limit.Window()) + 1
}

// since returns the units admitted at a time and later.
func (p *place) since(at int64) (units int64) {
	for i := len(p.log) - 1; i >= 0 && p.log[i].at >= at; i-- {
		units += p.log[i].units
	}
	return units
}

// sync makes a region publish and collect. Either may fail, even after the exchange has accepted
// the units. Rows arrive in any order, some twice, and some of them are old.
func (w *world) sync(p *place, faulty bool) {
	p.next = w.now + 4*second + w.rand.Int64N(2*second+1)
	fails := func() bool { return w.down || faulty && w.rand.IntN(4) == 0 }
	if fails() {
		return
	}
	_, foreign := p.counts.Split(p.Region)
	lost := fails()
	if units := p.own.Unpublished(); len(foreign) > 0 || region.Publishes(w.groups.InForce(p.own.Units(), w.now), w.limit.Amount(), len(w.regions)-1) {
		for _, u := range units {
			w.rows[at{p.Component, u.Index}] = max(w.rows[at{p.Component, u.Index}], u.Used)
			if !lost {
				p.own.Published(u)
			}
		}
	}
	p.published = w.now // it hides a quarter at most
	if lost || fails() {
		return
	}
	old := maps.Clone(w.rows)
	for range 2 {
		for at, units := range old { // in a random order
			if w.rand.IntN(2) == 0 {
				p.counts.Take(at.component, at.group, 1+w.rand.Int64N(units), w.groups.Expires(at.group))
			}
		}
	}
	for at, units := range w.rows {
		if at.component != p.Component {
			p.counts.Take(at.component, at.group, units, w.groups.Expires(at.group))
		}
	}
	for i, other := range w.regions {
		p.heard[i] = other.published
	}
	p.own.Trim(w.groups.Oldest(w.now))
	p.counts.Trim(w.now)
	p.store.Trim(&w.limit, w.now)
}

// run lets time pass, with so many units wanted per second in each region.
func (w *world) run(lasts time.Duration, perSecond int64, faulty bool) {
	w.faulty = faulty
	for end := w.now + int64(lasts); w.now < end; {
		w.now += 1 + w.rand.Int64N(2*second/10)
		for _, p := range w.regions {
			if w.now >= p.next {
				w.sync(p, faulty)
			}
			for range w.rand.Int64N(perSecond/5 + 1) {
				w.request(p, 1)
			}
		}
	}
}

// Regions together admit a limit, and what their exception says.
//
// Allows: Machines share counts by a store on a server.
func TestRegionsTogether(t *testing.T) {
	for _, p := range []limiter.Params{
		{Amount: 500, Window: time.Minute},
		{Amount: 7, Window: time.Minute},
		{Amount: 400, Window: 5 * time.Minute},
		{Algorithm: limiter.Fixed, Amount: 300, Window: time.Minute},
	} {
		for regions := 2; regions <= 4; regions++ {
			for _, faulty := range []bool{false, true} {
				w := newWorld(t, uint64(regions), p, regions)
				w.run(4*p.Window, max(p.Amount/10, 5), faulty)
				w.run(2*p.Window, max(p.Amount*int64(time.Second)/int64(p.Window)/int64(regions), 5), faulty)
			}
		}
	}
}

// While the exchange is unavailable, each region continues alone. When it is back, they know of
// each other within two turns, and no client is refused for longer than a window for units admitted
// meanwhile.
func TestAnHourWithoutTheExchange(t *testing.T) {
	p := limiter.Params{Amount: 60, Window: time.Minute}
	w := newWorld(t, 7, p, 3)
	w.run(2*time.Minute, 10, false)
	w.down = true
	w.run(time.Hour, 5, false)
	for _, p := range w.regions {
		if got := p.since(w.now - 30*minute); got < 28*60 {
			t.Errorf("without the exchange, region %s admitted %d in half an hour, want about %d", p.Region, got, 30*60)
		}
	}
	w.down, w.up = false, w.now
	w.run(12*time.Second, 5, false)
	for _, p := range w.regions {
		for i, heard := range p.heard {
			if p != w.regions[i] && w.now-heard > 12*second {
				t.Errorf("region %s knows of %s as of %v ago", p.Region, w.regions[i].Region, time.Duration(w.now-heard))
			}
		}
	}
	w.run(3*time.Minute, 5, false)
	if got := w.regions[0].since(w.now-3*minute) + w.regions[1].since(w.now-3*minute) + w.regions[2].since(w.now-3*minute); got < 60 {
		t.Errorf("after the exchange was back, all regions admitted %d in three windows", got)
	}
}
