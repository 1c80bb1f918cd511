package config

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/epoch"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/testing/fakeclock"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite"
)

func newNames(t *testing.T) *instance.Names {
	t.Helper()
	secret, err := identity.NewSecret(make([]byte, identity.MinSecret))
	if err != nil {
		t.Fatal(err)
	}
	n := &instance.Names{Epochs: epoch.In(filepath.Join(t.TempDir(), "tally.epochs"))}
	n.Secret.Store(secret)
	return n
}

func TestAddressesHaveNewNamesEveryDay(t *testing.T) {
	under, midnight := newNames(t), time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	name := func(key string, after time.Duration) (name, former storage.Key) {
		t.Helper()
		called, err := under.ForStore(1, key, time.Hour, midnight.Add(after).UnixNano())
		if err != nil {
			t.Fatal(err)
		}
		return called.Key, called.Former
	}
	before, none := name("i192.0.2.1", -time.Hour)
	if none != (storage.Key{}) {
		t.Error("there is a former name on the first day")
	}
	after, former := name("i192.0.2.1", time.Minute)
	if after == before || former != before {
		t.Errorf("after midnight the name is %x, the former %x, and it was %x", after, former, before)
	}
	if _, former := name("i192.0.2.1", 2*time.Hour); former != (storage.Key{}) {
		t.Error("a former name is looked for when nothing under it counts any more")
	}
	same, _ := name("ksomebody", -time.Hour)
	if again, former := name("ksomebody", time.Minute); again != same || former != (storage.Key{}) {
		t.Error("what is no address has a new name")
	}
}

// Names last as long as their counts, which is longer for a large bucket than for a small one.
// Still a client gets no fresh limit in another tier, at another level, or in a throttled network.
func TestLimitsThatCountTogetherNameAlike(t *testing.T) {
	const halfDay = caddy.Duration(12 * time.Hour)
	under, z := newNames(t), zoneCompiler{Zone: &Zone{Name: "z"}, run: &enforce.Zone{Name: "z", Per: enforce.PerClient}, app: &Compiler{App: new(App)}}
	now := time.Now().UnixNano()
	var limits []*engine.Limit
	for _, burst := range []int64{3, 40} { // of the tiers
		set, err := z.newLimitSet("", []Limit{{Amount: 1, Window: halfDay, Burst: burst}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range slices.Concat(set.Policies, set.Networks.Policies, set.Elsewhere.Policies) {
			limits = append(limits, &p.Limit)
			if p.Scaling != nil {
				limits = append(append(limits, p.Scaling.Levels[:]...), p.Scaling.Banned)
			}
		}
	}
	names, lasting := make(map[storage.LimitID]storage.Key), make(map[int]bool)
	for _, l := range limits {
		if l == nil {
			continue // no limit of its own while banned
		}
		called, err := under.ForStore(l.ID, "i192.0.2.1", l.Retention(), now)
		if err != nil {
			t.Fatal(err)
		}
		name := called.Key
		if other, ok := names[l.ID]; ok && name != other {
			t.Errorf("%d per %v with a burst of %d names otherwise than the others", l.Amount(), l.Window(), l.Capacity())
		}
		names[l.ID] = name
		lasting[epoch.Days(l.Rate.Retention())] = true
	}
	if len(names) != 3 || len(lasting) < 3 {
		t.Errorf("the test has limits of %d IDs, which last for %v days each", len(names), lasting)
	}
}

// A bucket that refills within its window has the same name for all amounts, so that it keeps its
// counts when the amount changes.
func TestAmountsDoNotChangeNames(t *testing.T) {
	under, now := newNames(t), time.Now().UnixNano()
	names := make(map[storage.Key]bool)
	for _, burst := range []int64{1, 50, 99, 100} {
		l, err := limiter.New(limiter.Params{Algorithm: limiter.TokenBucket, Amount: 100, Window: 36 * time.Hour, Burst: burst})
		if err != nil {
			t.Fatal(err)
		}
		name, err := under.ForStore(1, "i192.0.2.1", l.Retention(), now)
		if err != nil {
			t.Fatal(err)
		}
		names[name.Key] = true
	}
	if len(names) != 1 {
		t.Errorf("bursts of 1 to 100 at 100 per 36h have %d names", len(names))
	}
}

// No client gets a fresh limit because the day changes, even after a crash.
func TestCountsGoOnAtMidnight(t *testing.T) {
	for _, p := range []limiter.Params{
		{Amount: 10, Window: time.Minute},
		{Amount: 10, Window: 24 * time.Hour},
		{Algorithm: limiter.TokenBucket, Amount: 10, Window: 24 * time.Hour},
	} {
		arithmetic, err := limiter.New(p)
		if err != nil {
			t.Fatal(err)
		}
		limit, path := &engine.Limit{ID: 1, Rate: arithmetic}, filepath.Join(t.TempDir(), "tally.db")
		under := newNames(t)
		const length = 3 * 24 * 60 * 60 // of the epochs of a limit per day, in seconds; each begins at the start of a day
		next := time.Unix((time.Now().Unix()/length+1)*length, 0)
		clock := fakeclock.New(next.Add(-2 * time.Second).UnixNano())
		passing := func() (passed int) {
			e := engine.New(engine.Options{
				Open:         func(ctx context.Context) (storage.Store, error) { return sqlite.Open(ctx, sqlite.Options{Path: path}) },
				Name:         under.ForStore,
				NameAtOnce:   under.ForStoreAtOnce,
				Clock:        clock,
				StoreTimeout: time.Minute,
			})
			defer e.Close(context.Background())
			for range 6 {
				if e.Decide(context.Background(), nil, []engine.Debit{{Limit: limit, Key: []byte("i192.0.2.1"), Cost: 1}}).Allowed {
					passed++
				}
			}
			return passed
		}
		if got := passing(); got != 6 {
			t.Errorf("%v per %v: %d of 6 passed before midnight", p.Algorithm, p.Window, got)
		}
		clock.Now.Add(int64(10 * time.Second))
		if got := passing(); got != 4 {
			t.Errorf("%v per %v: %d more passed a limit of 10 after midnight, want 4", p.Algorithm, p.Window, got)
		}
	}
}
