package limiter_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

func TestNewErrors(t *testing.T) {
	const hour = time.Hour
	for _, tt := range []struct {
		name string
		p    limiter.Params
		want string
	}{
		{"window zero", limiter.Params{Amount: 1}, "window must be at least 100ms, got 0s"},
		{"window negative", limiter.Params{Amount: 1, Window: -hour}, "window must be at least 100ms, got -1h0m0s"},
		{"window short", limiter.Params{Amount: 1, Window: limiter.MinWindow - 1}, "window must be at least 100ms, got 99.999999ms"},
		{"window long", limiter.Params{Amount: 1, Window: limiter.MaxWindow + 1}, "window must be at most 366 days (8784h0m0s), got 8784h0m0.000000001s"},
		{"amount zero", limiter.Params{Window: hour}, "amount must be between 1 and 1099511627776 (2^40), got 0"},
		{"amount negative", limiter.Params{Amount: -1, Window: hour}, "amount must be between 1 and 1099511627776 (2^40), got -1"},
		{"amount large", limiter.Params{Amount: limiter.MaxAmount + 1, Window: hour}, "amount must be between 1 and 1099511627776 (2^40), got 1099511627777"},
		{"slots negative", limiter.Params{Amount: 1, Window: hour, Slots: -1}, "slots must be between 1 and 10000, got -1"},
		{"slots many", limiter.Params{Amount: 1, Window: hour, Slots: 10_001}, "slots must be between 1 and 10000, got 10001"},
		{"slots far too many", limiter.Params{Amount: 1, Window: hour, Slots: math.MaxInt32}, "slots must be between 1 and 10000, got 2147483647"},
		{"slots of a fixed limit", limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: hour, Slots: 1}, "slots belong to a sliding limit, not to fixed"},
		{"slots of a token bucket", limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: hour, Slots: 1}, "slots belong to a sliding limit, not to token_bucket"},
		{"burst of a sliding limit", limiter.Params{Amount: 1, Window: hour, Burst: 2}, "a burst belongs to a token bucket, not to sliding"},
		{"burst of a fixed limit", limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: hour, Burst: 2}, "a burst belongs to a token bucket, not to fixed"},
		{"burst negative", limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: hour, Burst: -1}, "burst must be between 1 and 1099511627776 (2^40), got -1"},
		{"burst large", limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: hour, Burst: limiter.MaxAmount + 1}, "burst must be between 1 and 1099511627776 (2^40), got 1099511627777"},
		{"burst slow", limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: hour, Burst: 876_001}, "a burst of 876001 at 1 per 1h0m0s takes over 100 years to refill; expected a smaller burst or a shorter window"},
		{"algorithm", limiter.Params{Algorithm: 3, Amount: 1, Window: hour}, "unknown algorithm Algorithm(3)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := limiter.New(tt.p)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestNewAtTheBounds(t *testing.T) {
	for _, p := range []limiter.Params{
		{Amount: limiter.MinAmount, Window: limiter.MinWindow, Slots: limiter.MinSlots},
		{Amount: limiter.MaxAmount, Window: limiter.MaxWindow, Slots: limiter.MaxSlots},
		{Algorithm: limiter.Fixed, Amount: limiter.MaxAmount, Window: limiter.MaxWindow},
		{Algorithm: limiter.TokenBucket, Amount: 1, Window: time.Hour, Burst: 876_000}, // 100 years to the hour
		{Algorithm: limiter.TokenBucket, Amount: limiter.MaxAmount, Window: limiter.MaxWindow, Burst: 1},
	} {
		l := mustNew(t, p)
		if l.Algorithm() != p.Algorithm || l.Amount() != p.Amount || l.Window() != p.Window || l.Capacity() != capacityOf(p) {
			t.Errorf("New(%+v) = %+v", p, l)
		}
	}
}

func TestAlgorithmNames(t *testing.T) {
	for a, want := range map[limiter.Algorithm]string{
		limiter.Sliding: "sliding", limiter.Fixed: "fixed", limiter.TokenBucket: "token_bucket", 9: "Algorithm(9)",
	} {
		if got := a.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDefaultSlots(t *testing.T) {
	for _, window := range []time.Duration{limiter.MinWindow, time.Second, 11 * time.Second, time.Minute, time.Hour, limiter.MaxWindow} {
		if got := mustNew(t, limiter.Params{Amount: 1, Window: window}).Slots(); got != 60 {
			t.Errorf("window %v has %d slots, want 60", window, got)
		}
	}
	for algorithm, want := range map[limiter.Algorithm]int64{limiter.Fixed: 1, limiter.TokenBucket: 0} {
		if got := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 1, Window: time.Hour}).Slots(); got != want {
			t.Errorf("%v has %d slots, want %d", algorithm, got, want)
		}
	}
}

func TestSlotArithmetic(t *testing.T) {
	const ms = int64(time.Millisecond)
	even := limiter.Params{Amount: 1, Window: time.Second, Slots: 10}                   // of 100 ms
	odd := limiter.Params{Amount: 1, Window: 100*time.Millisecond + 1, Slots: 3}        // of 33,333,334 ns, 1 ns too much in all
	single := limiter.Params{Amount: 1, Window: time.Second, Slots: 1}                  // the whole window
	fixed := limiter.Params{Algorithm: limiter.Fixed, Amount: 1, Window: 1 * time.Hour} // aligned
	hour := int64(time.Hour)
	for _, tt := range []struct {
		name                         string
		p                            limiter.Params
		now                          int64
		slot, oldest, newest, expiry int64
	}{
		{"epoch", even, 0, 0, -10, 17, 1100*ms - 1},
		{"last of the first slot", even, 100*ms - 1, 0, -9, 17, 1100*ms - 1},
		{"first of the second", even, 100 * ms, 1, -9, 18, 1200*ms - 1},
		{"before the last slot leaves", even, 1100*ms - 2, 10, 0, 27, 2100*ms - 1},
		{"when it has left", even, 1100*ms - 1, 10, 1, 27, 2100*ms - 1},
		{"just before the epoch", even, -1, -1, -10, 16, 1000*ms - 1},
		{"before the epoch, on the edge", even, -100 * ms, -1, -11, 16, 1000*ms - 1},
		{"before the epoch, over the edge", even, -100*ms - 1, -2, -11, 15, 900*ms - 1},
		{"odd, epoch", odd, 0, 0, -3, 5, 133_333_334},
		{"odd, a window on", odd, 100_000_001, 2, 0, 7, 200_000_002},
		{"odd, an instant before expiry", odd, 133_333_333, 3, 0, 8, 233_333_336},
		{"odd, at expiry", odd, 133_333_334, 3, 1, 8, 233_333_336},
		{"odd, before the epoch", odd, -1, -1, -3, 4, 100_000_000},
		{"single slot", single, 0, 0, -1, 1, 2000*ms - 1},
		{"single slot, end", single, 1000*ms - 1, 0, 0, 1, 2000*ms - 1},
		{"fixed", fixed, 0, 0, 0, 1, hour},
		{"fixed, end", fixed, hour - 1, 0, 0, 1, hour},
		{"fixed, next", fixed, hour, 1, 1, 2, 2 * hour},
		{"fixed, before the epoch", fixed, -1, -1, -1, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := mustNew(t, tt.p)
			if got := l.Slot(tt.now); got != tt.slot {
				t.Errorf("Slot(%d) = %d, want %d", tt.now, got, tt.slot)
			}
			if got := l.Oldest(tt.now); got != tt.oldest {
				t.Errorf("Oldest(%d) = %d, want %d", tt.now, got, tt.oldest)
			}
			if got := l.Newest(tt.now); got != tt.newest {
				t.Errorf("Newest(%d) = %d, want %d", tt.now, got, tt.newest)
			}
			if got := l.Expiry(tt.slot); got != tt.expiry {
				t.Errorf("Expiry(%d) = %d, want %d", tt.slot, got, tt.expiry)
			}
		})
	}
}

// Granted units, charged as far ahead as possible and spent as late as possible, count no longer
// than the limit says.
func TestRememberedIsEnough(t *testing.T) {
	for _, p := range []limiter.Params{
		{Amount: 100, Window: time.Minute},
		{Amount: 100, Window: time.Second, Slots: 4},
		{Amount: 100, Window: time.Hour, Slots: 1},
		{Algorithm: limiter.Fixed, Amount: 100, Window: time.Minute},
		{Algorithm: limiter.TokenBucket, Amount: 100, Window: time.Minute},
		{Algorithm: limiter.TokenBucket, Amount: 100, Window: time.Minute, Burst: 1000},
	} {
		l := mustNew(t, p)
		var s limiter.State
		c := limiter.Claim{Now: noon, Min: 1, Want: 1, Extra: l.Capacity(), Ahead: l.Slots()}
		l.Claim(&s, c)
		c.Want = l.Capacity()
		l.Claim(&s, c)
		if g := l.Claim(&s, limiter.Claim{Now: noon + int64(l.Retention())}); g.Used != 0 || g.Part != 0 {
			t.Errorf("%+v: after %v there is still something of it: %+v", p, l.Retention(), s)
		}
	}
}

// A slot counts up to its expiry, and no instant longer, and is remembered for at least a window
// and less than a window and a slot.
func TestExpiryAgreesWithOldest(t *testing.T) {
	for _, p := range []limiter.Params{
		{Amount: 1, Window: limiter.MinWindow, Slots: limiter.MaxSlots},
		{Amount: 1, Window: limiter.MinWindow + 1, Slots: limiter.MaxSlots},
		{Amount: 1, Window: time.Second, Slots: 7},
		{Amount: 1, Window: limiter.MaxWindow},
		{Amount: 1, Window: limiter.MaxWindow - 1, Slots: 9999},
		{Algorithm: limiter.Fixed, Amount: 1, Window: time.Minute},
	} {
		l := mustNew(t, p)
		for _, now := range []int64{0, 1, -1, 1_763_000_000_123_456_789, -1_763_000_000_123_456_789} {
			slot := l.Slot(now)
			expiry := l.Expiry(slot)
			if l.Oldest(expiry-1) > slot || l.Oldest(expiry) <= slot {
				t.Errorf("%+v: slot %d expires at %d: the oldest is %d before and %d then", p, slot, expiry, l.Oldest(expiry-1), l.Oldest(expiry))
			}
			if p.Algorithm == limiter.Fixed {
				continue
			}
			if kept := expiry - now; kept < int64(p.Window) || kept >= int64(p.Window)+slotWidth(p) {
				t.Errorf("%+v: a unit at %d is remembered for %d", p, now, kept)
			}
		}
	}
}

func TestWithAmount(t *testing.T) {
	bucket := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: time.Second, Burst: 30})
	sliding := mustNew(t, limiter.Params{Amount: 10, Window: time.Minute, Slots: 6})
	for _, tt := range []struct {
		l             limiter.Limit
		amount, burst int64
		capacity      int64
		err           string
	}{
		{l: sliding, amount: 12, capacity: 12},
		{l: sliding, amount: 0, err: "amount must be between 1 and 1099511627776 (2^40), got 0"},
		{l: sliding, amount: 12, burst: 12, err: "a burst belongs to a token bucket, not to sliding"},
		{l: bucket, amount: 12, capacity: 12},
		{l: bucket, amount: 12, burst: 5, capacity: 5},
		{l: bucket, amount: 12, burst: -5, err: "burst must be between 1 and 1099511627776 (2^40), got -5"},
	} {
		got, err := tt.l.WithAmount(tt.amount, tt.burst)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("WithAmount(%d, %d): got error %v, want %s", tt.amount, tt.burst, err, tt.err)
			}
			continue
		}
		if err != nil || got.Amount() != tt.amount || got.Capacity() != tt.capacity {
			t.Errorf("WithAmount(%d, %d) = %+v, %v", tt.amount, tt.burst, got, err)
		}
		if got.Algorithm() != tt.l.Algorithm() || got.Window() != tt.l.Window() || got.Slots() != tt.l.Slots() {
			t.Errorf("WithAmount(%d, %d) changed %+v to %+v", tt.amount, tt.burst, tt.l, got)
		}
	}
}

func TestScale(t *testing.T) {
	for _, tt := range []struct {
		amount, burst         int64
		percent               int
		wantAmount, wantBurst int64
	}{
		{10, 30, 100, 10, 30},
		{10, 30, 50, 5, 15},
		{10, 30, 40, 4, 12},
		{10, 31, 41, 5, 13}, // 4.1 and 12.71
		{1, 1, 1, 1, 1},
		{99, 99, 1, 1, 1},
		{101, 101, 1, 2, 2},
		{10, 30, 0, 1, 1},
		{10, 30, -7, 1, 1},
		{10, 30, 1000, 10, 30},
		{limiter.MaxAmount, limiter.MaxAmount, 99, 1088516511499, 1088516511499}, // of …498.24
	} {
		bucket := mustNew(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: tt.amount, Window: time.Second, Burst: tt.burst})
		if got := bucket.Scale(tt.percent); got.Amount() != tt.wantAmount || got.Capacity() != tt.wantBurst {
			t.Errorf("%d burst %d at %d%% is %d burst %d, want %d burst %d", tt.amount, tt.burst, tt.percent,
				got.Amount(), got.Capacity(), tt.wantAmount, tt.wantBurst)
		}
		sliding := mustNew(t, limiter.Params{Amount: tt.amount, Window: time.Second})
		if got := sliding.Scale(tt.percent); got.Amount() != tt.wantAmount || got.Capacity() != tt.wantAmount {
			t.Errorf("%d at %d%% is %d, of a capacity of %d, want %d", tt.amount, tt.percent, got.Amount(), got.Capacity(), tt.wantAmount)
		}
	}
}

func TestClamp(t *testing.T) {
	for _, tt := range []struct{ used, want int64 }{
		{math.MinInt64, 0}, {-1, 0}, {0, 0}, {1, 1}, {limiter.MaxAmount, limiter.MaxAmount},
	} {
		if got := limiter.Clamp(tt.used); got != tt.want {
			t.Errorf("Clamp(%d) = %d, want %d", tt.used, got, tt.want)
		}
	}
	if got := limiter.Clamp(math.MaxInt64); got < limiter.MaxAmount || got > math.MaxInt64/(2*limiter.MaxSlots+2) {
		t.Errorf("Clamp(MaxInt64) = %d: less than a limit lets in, or too much for the sum of all slots", got)
	}
}

func TestRaise(t *testing.T) {
	for _, tt := range []struct {
		p                limiter.Params
		percent          int
		amount, capacity int64
	}{
		{limiter.Params{Amount: 10, Window: time.Minute}, 500, 50, 50},
		{limiter.Params{Amount: 10, Window: time.Minute}, 100, 10, 10},
		{limiter.Params{Amount: 10, Window: time.Minute}, 25, 3, 3}, // rounded up
		{limiter.Params{Amount: 10, Window: time.Minute}, 1, 1, 1},
		{limiter.Params{Amount: 3, Window: time.Minute}, 150, 5, 5},
		{limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: time.Second, Burst: 30}, 500, 50, 150},
		{limiter.Params{Algorithm: limiter.TokenBucket, Amount: 2, Window: time.Minute, Burst: 7}, 50, 1, 3}, // rounded down: it is full again after 3.5 minutes at most
		{limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: time.Minute, Burst: 7}, 50, 1, 4},
		{limiter.Params{Amount: limiter.MaxAmount / 2, Window: time.Minute}, 100_000, limiter.MaxAmount, limiter.MaxAmount},
		{limiter.Params{Algorithm: limiter.TokenBucket, Amount: limiter.MaxAmount / 8, Window: time.Minute, Burst: limiter.MaxAmount / 2}, 100_000, limiter.MaxAmount / 4, limiter.MaxAmount},
	} {
		l, err := limiter.New(tt.p)
		if err != nil {
			t.Fatal(err)
		}
		if r := l.Raise(tt.percent); r.Amount() != tt.amount || r.Capacity() != tt.capacity || r.Window() != l.Window() {
			t.Errorf("%v × %d %%: %d, and %d at once, want %d and %d", tt.p, tt.percent, r.Amount(), r.Capacity(), tt.amount, tt.capacity)
		}
	}
	random := rand.New(rand.NewPCG(162, 1))
	for range 100_000 {
		p := limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1 + random.Int64N(1<<(1+random.IntN(40))), Burst: 1 + random.Int64N(1<<(1+random.IntN(40))), Window: time.Hour}
		l, err := limiter.New(p)
		if err != nil {
			continue
		}
		percent := 1 + random.IntN(100_000)
		r := l.Raise(percent)
		if r.Retention() > l.Retention() || r.Amount() < 1 || r.Capacity() < 1 || r.Amount() > limiter.MaxAmount || r.Capacity() > limiter.MaxAmount {
			t.Fatalf("%v × %d %%: %d, and %d at once, are kept for %v instead of %v", p, percent, r.Amount(), r.Capacity(), r.Retention(), l.Retention())
		}
	}
}
