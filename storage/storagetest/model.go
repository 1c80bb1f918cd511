package storagetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// model is the reference: the arithmetic of package limiter on states in a map.
type model map[cell]*state

type cell struct {
	id  storage.LimitID
	key storage.Key
}

// state is the state of a key of a limit, and the latest time as of which a claim changed it.
type state struct {
	limiter.State
	changed int64
}

func (m model) claim(c storage.Claim) limiter.Grant {
	return m.at(c).claim(c)
}

func (m model) at(c storage.Claim) *state {
	place := cell{c.ID, c.Key}
	if m[place] == nil {
		m[place] = new(state)
	}
	return m[place]
}

func (st *state) claim(c storage.Claim) limiter.Grant {
	before := slices.Clone(st.Slots)
	grant := c.Limit.Claim(&st.State, c.Claim)
	if !slices.Equal(before, st.Slots) {
		st.changed = max(st.changed, c.Now)
	}
	return grant
}

// kept returns the state of a store that dropped what no longer counted when it was changed last. For a
// claim as of an earlier time, that may differ from the whole state.
func (st *state) kept(l *limiter.Limit) *state {
	kept := *st
	kept.Slots = slices.Clone(st.Slots)
	if l.CountsSlots() {
		oldest := l.Oldest(st.changed)
		kept.Slots = slices.DeleteFunc(kept.Slots, func(s limiter.Slot) bool { return s.Index < oldest })
	}
	return &kept
}

// check claims from the store and from the model at the time of the first claim, and compares.
func (m model) check(t *testing.T, s storage.Store, claims ...storage.Claim) []limiter.Grant {
	t.Helper()
	return m.checkIn(t, s, At(claims[0].Now), claims...)
}

// checkIn is check within a term.
func (m model) checkIn(t *testing.T, s storage.Store, term *storage.Term, claims ...storage.Claim) []limiter.Grant {
	t.Helper()
	grants := claimIn(t, s, term, claims...)
	m.checkGrants(t, claims, grants)
	return grants
}

// checkGrants claims from the model, and compares the grants with those of a store.
func (m model) checkGrants(t *testing.T, claims []storage.Claim, grants []limiter.Grant) {
	t.Helper()
	for i, c := range claims {
		kept := m.at(c).kept(&c.Limit)
		want := m.claim(c)
		if grants[i] != want && kept.claim(c) == grants[i] {
			m[cell{c.ID, c.Key}] = kept
		} else if grants[i] != want {
			t.Fatalf("claim %d of %d: %v limit of %d per %v, key %x, %+v:\n got %+v\nwant %+v", i, len(claims),
				c.Limit.Algorithm(), c.Limit.Amount(), c.Limit.Window(), c.Key, c.Claim, grants[i], want)
		}
	}
}

// start is the time at which the tests begin. It is inside a window and a slot, and in whole
// microseconds, like the time of some servers.
var start = time.Date(2026, 11, 21, 14, 15, 16, 123_456_000, time.UTC).UnixNano()

// params are limits of every kind, with windows short enough that a test sees
// them pass.
var params = []limiter.Params{
	{Algorithm: limiter.Sliding, Amount: 100, Window: time.Minute},
	{Algorithm: limiter.Sliding, Amount: 7, Window: 10 * time.Second, Slots: 3},
	{Algorithm: limiter.Sliding, Amount: 1000, Window: time.Second + 1, Slots: 7},
	{Algorithm: limiter.Sliding, Amount: 5, Window: 3 * time.Second, Slots: 1},
	{Algorithm: limiter.Fixed, Amount: 10, Window: 10 * time.Second},
	{Algorithm: limiter.Fixed, Amount: 1, Window: 100 * time.Millisecond},
	{Algorithm: limiter.Fixed, Amount: 10, Window: limiter.Month},
	{Algorithm: limiter.Fixed, Amount: 10, Window: limiter.Month, Location: time.FixedZone("tomorrow", +13*3600)},
	{Algorithm: limiter.Fixed, Amount: 10, Window: 24 * time.Hour, Location: time.FixedZone("yesterday", -15*3600)},
	{Algorithm: limiter.Fixed, Amount: 10, Window: 24 * time.Hour, Location: time.FixedZone("tomorrow", +13*3600)},
	{Algorithm: limiter.TokenBucket, Amount: 10, Window: time.Second, Burst: 30},
	{Algorithm: limiter.TokenBucket, Amount: 3, Window: time.Minute},
	{Algorithm: limiter.TokenBucket, Amount: limiter.MaxAmount, Window: time.Second},
}

// traffic makes random claims, which give back the leases of earlier ones. The clock advances,
// stands still, and sometimes steps back a little, as those of several processes seem to.
type traffic struct {
	rand   *rand.Rand
	limits []limiter.Limit
	keys   int
	now    int64
	leases map[cell]limiter.Lease

	steady bool // amounts stay, time never steps back
}

func newTraffic(t *testing.T, seed uint64) *traffic {
	tr := &traffic{
		rand:   rand.New(rand.NewPCG(seed, seed)),
		keys:   6,
		now:    start,
		leases: make(map[cell]limiter.Lease),
	}
	for _, p := range params {
		tr.limits = append(tr.limits, newLimit(t, p))
	}
	return tr
}

// seeds runs f with seeds as subtests. One of them is random, and named by the subtest. -short runs
// fewer seeds, and PROOF more.
func seeds(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	n = proof.Times((n+1)/2, 10*n)
	if testing.Short() {
		n = (n + 2) / 3
	}
	for i := range n {
		seed := uint64(i)
		if i == n-1 {
			seed = rand.Uint64()
		}
		ok := t.Run("", func(t *testing.T) {
			f(t, seed)
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
		if !ok {
			t.Fatalf("seed %d", seed)
		}
	}
}

func (tr *traffic) batch() []storage.Claim {
	tr.tick()
	claims := make([]storage.Claim, 1+tr.rand.IntN(1+tr.rand.IntN(60)))
	for i := range claims {
		claims[i] = tr.next()
	}
	return claims
}

// tick advances the time.
func (tr *traffic) tick() {
	switch tr.rand.IntN(8) {
	case 0: // none
	case 1:
		tr.now += tr.rand.Int64N(int64(time.Minute))
	case 2:
		tr.now += tr.rand.Int64N(int64(5 * time.Second))
	case 3:
		if !tr.steady {
			tr.now -= tr.rand.Int64N(int64(2 * time.Second))
		}
	default:
		tr.now += tr.rand.Int64N(int64(100 * time.Millisecond))
	}
}

func (tr *traffic) next() storage.Claim {
	id := tr.rand.IntN(len(tr.limits))
	l := tr.limits[id]
	if !tr.steady && tr.rand.IntN(4) == 0 {
		l = l.Scale(1 + tr.rand.IntN(100))
	}
	c := storage.Claim{ID: limitID(id), Key: key(tr.rand.IntN(tr.keys)), Limit: l}
	c.Now = tr.now
	c.Min = tr.rand.Int64N(3)
	c.Want = c.Min + tr.rand.Int64N(1+l.Capacity()/4)
	c.Extra, c.Ahead = tr.rand.Int64N(20), tr.rand.Int64N(40)
	c.Lasts = tr.rand.Int64N(l.MaxLasts() + 2)
	c.Processes, c.Spread = tr.rand.Int64N(30), tr.rand.IntN(4) == 0
	if lease := tr.leases[cell{c.ID, c.Key}]; lease.Units > 0 && tr.rand.IntN(2) == 0 {
		lease.Units = tr.rand.Int64N(lease.Units + 1)
		c.Return = lease
		delete(tr.leases, cell{c.ID, c.Key})
	}
	if tr.rand.IntN(10) == 0 {
		c.Charge.Units = tr.rand.Int64N(l.Capacity())
		if l.CountsSlots() {
			c.Charge.At = l.Slot(c.Now) - tr.rand.Int64N(2*l.Slots()+2)
		}
	}
	return c
}

// keep stores a grant.
func (tr *traffic) keep(claims []storage.Claim, grants []limiter.Grant) {
	for i, g := range grants {
		if g.Units > 0 {
			tr.leases[cell{claims[i].ID, claims[i].Key}] = g.Lease
		}
	}
}

// limitID spreads IDs over their whole range, as hashes do. A store may combine IDs with an era, so
// they are no multiples of a common hash constant.
func limitID(n int) storage.LimitID {
	return storage.LimitID(uint64(n+1) * 0xd6e8feb86659fd93)
}
