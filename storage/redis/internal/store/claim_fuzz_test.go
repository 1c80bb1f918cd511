package store

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// FuzzClaims compares the script with package limiter, claim by claim, for limits of every kind
// with any valid numbers. Later claims see the changes of earlier ones.
func FuzzClaims(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed, uint8(seed), int64(1)<<(seed*4/3), int64(limiter.MinWindow)<<(seed%29), int64(seed%5))
	}
	f.Add(uint64(1), uint8(2), int64(limiter.MaxAmount), int64(limiter.MaxWindow)-1, int64(limiter.MaxAmount))
	f.Add(uint64(2), uint8(2), int64(3), int64(limiter.MaxWindow)-1, int64(25)) // quotients are estimated too high
	f.Fuzz(func(t *testing.T, seed uint64, algorithm uint8, amount, window, burst int64) {
		p := limiter.Params{Algorithm: limiter.Algorithm(algorithm % 3), Amount: amount, Window: time.Duration(window)}
		switch p.Algorithm {
		case limiter.TokenBucket:
			p.Burst = burst
		case limiter.Sliding:
			p.Slots = int(uint64(burst) % 300)
		}
		l, err := limiter.New(p)
		if err != nil {
			return
		}
		store := fuzzed(t)
		w := claimWorld{Rand: rand.New(rand.NewPCG(seed, 0)), limit: l, states: make(map[storage.Key]limiter.State), now: int64(1+seed%4) * int64(time.Hour) * 24 * 365 * 19} // no clock is set to before 1970
		w.id = storage.LimitID(lastLimit.Add(1))
		for range 30 {
			w.setTime(t, store)
			w.step(t, store)
		}
	})
}

var (
	lastLimit atomic.Uint64
	sharing   struct {
		once  sync.Once
		store *Store
	}
)

// fuzzed returns the store of all runs, because opening one takes longer than a run. It ends with
// the process.
func fuzzed(t *testing.T) *Store {
	t.Helper()
	o := newPlace(t)
	o.wallTime = true
	sharing.once.Do(func() {
		s, err := Opener(o)(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		sharing.store = s.(*Store)
	})
	return sharing.store
}

// claimWorld makes claims for two names of one key, and for other keys that all want the same, and has the
// expected states.
type claimWorld struct {
	*rand.Rand
	limit  limiter.Limit
	id     storage.LimitID
	now    int64 // the latest time so far
	at     int64 // the time of the step
	states map[storage.Key]limiter.State
	crowd  byte // the first of the other keys
	leases []limiter.Lease
}

// upTo returns a number from 0 to most: a small one, any one, or one near most.
func (w *claimWorld) upTo(most int64) int64 {
	switch w.IntN(4) {
	case 0:
		return w.Int64N(min(most, 3) + 1)
	case 1:
		return most - w.Int64N(min(most, 3)+1)
	default:
		return w.Int64N(most + 1)
	}
}

// setTime sets the time of the place. Buckets may have been charged a little later.
func (w *claimWorld) setTime(t *testing.T, s *Store) {
	t.Helper()
	length := int64(w.limit.Window())
	if w.IntN(3) > 0 {
		w.now += w.upTo(length / 10)
	} else if w.IntN(5) == 0 {
		w.now += w.upTo(min(3*length, int64(limiter.MaxWindow)))
	}
	at := w.now
	if !w.limit.CountsSlots() && w.IntN(2) == 0 {
		at -= w.upTo(int64(time.Second))
	}
	at = at / 1000 * 1000
	set := s.server.client.B().Hset().Key(s.server.names.meta()).FieldValue().FieldValue("last", strconv.FormatInt(at/1000, 10)).FieldValue("offset", "0").Build()
	if err := s.server.client.Do(context.Background(), set).Error(); err != nil {
		t.Fatal(err)
	}
	s.machine.clock, w.at = clock{}, at
}

func (w *claimWorld) step(t *testing.T, s *Store) {
	var claims []storage.Claim
	for range 1 + w.IntN(3) {
		claims = append(claims, w.claim())
	}
	for range w.IntN(3) {
		claims = append(claims, w.alike()...)
	}
	w.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
	want := make([]limiter.Grant, len(claims))
	for i := range claims {
		state := w.states[claims[i].Key]
		if former := claims[i].Former; former != (storage.Key{}) {
			state.Merge(&claims[i].Limit, w.states[former], claims[i].Now)
			delete(w.states, former)
		}
		want[i] = claims[i].Limit.Claim(&state, claims[i].Claim)
		w.states[claims[i].Key] = state
	}
	got := make([]limiter.Grant, len(claims))
	if err := s.Claim(context.Background(), storagetest.At(w.at), claims, got); err != nil {
		t.Fatal(err)
	}
	for i := range claims {
		if got[i] != want[i] {
			t.Fatalf("%v limit of %d (%d) per %v in %d, %+v of %x, former %x:\n got %+v\nwant %+v", w.limit.Algorithm(), claims[i].Limit.Amount(),
				claims[i].Limit.Capacity(), w.limit.Window(), w.limit.Slots(), claims[i].Claim, claims[i].Key[:1], claims[i].Former[:1], got[i], want[i])
		}
		if got[i].Units > 0 {
			w.leases = append(w.leases, got[i].Lease)
		}
	}
}

// alike returns claims of several keys, some of them new, that all want the same. The limits of some
// are lower.
func (w *claimWorld) alike() (claims []storage.Claim) {
	c := w.claim()
	c.Former, c.Return, c.Charge = storage.Key{}, limiter.Lease{}, limiter.Charge{}
	for range 1 + w.IntN(5) {
		if w.IntN(6) == 0 {
			w.crowd++
		}
		c.Key = storage.Key{3, w.crowd + byte(w.IntN(4))}
		if c.Limit = w.limit; w.IntN(4) == 0 {
			c.Limit = w.limit.Scale(50)
		}
		claims = append(claims, c)
	}
	return claims
}

func (w *claimWorld) claim() storage.Claim {
	l := w.limit
	if w.IntN(4) == 0 {
		l = l.Scale(1 + w.IntN(100))
	}
	most := l.Capacity()
	c := storage.Claim{ID: w.id, Key: storage.Key{1}, Limit: l, Claim: limiter.Claim{
		Now: w.at, Min: w.upTo(most), Extra: w.upTo(most),
		Ahead: w.upTo(100), Lasts: w.upTo(2 * l.MaxLasts()), Processes: w.upTo(50), Spread: w.IntN(3) == 0,
	}}
	c.Min *= int64(w.IntN(2))
	c.Want = c.Min + w.upTo(most)
	if w.IntN(5) == 0 { // the key has a new name, or somebody still uses the old one
		c.Key = storage.Key{2}
		if w.IntN(2) == 0 {
			c.Former = storage.Key{1}
		}
	}
	if n := len(w.leases); n > 0 && w.IntN(2) == 0 {
		lease := w.leases[w.IntN(n)]
		if spent := w.upTo(lease.Units); w.IntN(3) > 0 {
			lease.Spend(&l, c.Now, spent)
		}
		if lease.Span > 0 && w.IntN(2) == 0 {
			lease.Lapsed = w.upTo(max(lease.Units, 0))
		}
		c.Return = lease
	}
	if w.IntN(6) == 0 {
		c.Charge = limiter.Charge{Units: w.upTo(2 * most), Floor: w.IntN(2) == 0}
		if l.CountsSlots() {
			c.Charge.At = l.Slot(c.Now) - w.upTo(2*l.Slots()) + w.upTo(3)
		}
	}
	return c
}

func opened(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Opener(o)(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*Store)
}
