package limiter_test

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

var seedFlag = flag.Uint64("seed", 0, "run the random tests with this seed only")

// source turns the bytes of a fuzz input into choices. After its last byte, every choice is the
// first one.
type source struct{ data []byte }

func (s *source) more() bool { return len(s.data) > 0 }

func (s *source) byte() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

// pick returns a number from 0 to n-1, for n up to 256.
func (s *source) pick(n int) int { return int(s.byte()) % n }

// word returns any 64 bits.
func (s *source) word() int64 {
	var w uint64
	for range 8 {
		w = w<<8 | uint64(s.byte())
	}
	return int64(w)
}

// upTo returns a number from 0 to n: of any magnitude, with small ones, powers of two and the ends
// as likely as all the rest.
func (s *source) upTo(n int64) int64 {
	switch s.pick(6) {
	case 0:
		return min(int64(s.pick(12)), n)
	case 1:
		return n - min(int64(s.pick(3)), n)
	case 2:
		return min(max(1<<s.pick(62)+int64(s.pick(3))-1, 0), n)
	case 3:
		return n / int64(1+s.pick(16))
	}
	w := s.word() & (1<<62 - 1) >> s.pick(62)
	if n == 1<<63-1 {
		return w
	}
	return w % (n + 1)
}

// params returns the parameters of a valid limit.
func (s *source) params() limiter.Params {
	p := limiter.Params{Algorithm: limiter.Algorithm(s.pick(3))}
	switch s.pick(4) {
	case 0:
		p.Window = time.Second * time.Duration(1+s.pick(100))
	case 1:
		p.Window = []time.Duration{limiter.MinWindow, limiter.MaxWindow, time.Minute, 24 * time.Hour}[s.pick(4)]
	default:
		p.Window = limiter.MinWindow + time.Duration(s.upTo(int64(limiter.MaxWindow-limiter.MinWindow)))
	}
	if p.Algorithm == limiter.Sliding {
		p.Slots = int(s.upTo(limiter.MaxSlots)) // 0: the default
	}
	s.amount(&p)
	return p
}

// amount sets the amount of p, and the burst, to values that are valid for its window.
func (s *source) amount(p *limiter.Params) {
	p.Amount = 1 + s.upTo(limiter.MaxAmount-1)
	p.Burst = 0
	if p.Algorithm == limiter.TokenBucket && s.pick(2) == 1 {
		p.Burst = 1 + s.upTo(limiter.MaxAmount-1)
		if _, err := limiter.New(*p); err != nil {
			p.Burst = 0 // it would take over 100 years to refill
		}
	}
}

// start returns a time to begin at: today, or around the epoch.
func (s *source) start(p limiter.Params) int64 {
	switch s.pick(4) {
	case 0:
		return s.upTo(4 * int64(p.Window))
	case 1:
		return -s.upTo(4 * int64(p.Window))
	}
	return 1_763_000_000_000_000_000 + s.upTo(int64(p.Window))
}

// step returns a duration, mostly one with an effect on the limit.
func (s *source) step(p limiter.Params) int64 {
	width := int64(p.Window)
	if p.Algorithm == limiter.Sliding {
		width = slotWidth(p)
	}
	switch s.pick(8) {
	case 0:
		return 0
	case 1:
		if s.pick(8) == 0 {
			return s.upTo(1 << 60) // up to 36 years
		}
		return 0
	case 2:
		return width * int64(s.pick(8))
	case 3:
		return width + int64(s.pick(3)) - 1
	case 4:
		return int64(p.Window) + int64(s.pick(3)) - 1
	case 5:
		return int64(p.Window)/p.Amount + int64(s.pick(3)) // a token
	case 6:
		return s.upTo(3 * int64(p.Window))
	}
	return s.upTo(width)
}

// onClock adds a step to a time. The range of time.Time.UnixNano, from 1678 to 2262, is tested
// except for the ten longest windows at each end.
func onClock(now, step int64) int64 {
	const end = math.MaxInt64 - 10*int64(limiter.MaxWindow)
	switch {
	case step > 0 && now > end-step:
		return end
	case step < 0 && now < -end-step:
		return -end
	}
	return now + step
}

// cost returns a number of units, mostly near the interesting ones if left are free.
func (s *source) cost(capacity, left int64) int64 {
	switch s.pick(8) {
	case 0, 1:
		return 1
	case 2:
		return left
	case 3:
		return left + 1
	case 4:
		return capacity + int64(s.pick(2))
	case 5:
		return 0
	case 6:
		return s.upTo(left)
	}
	return s.upTo(2 * capacity)
}

// cloneState returns a copy that shares nothing with s.
func cloneState(s limiter.State) limiter.State {
	s.Slots = slices.Clone(s.Slots)
	return s
}

func mustNew(t testing.TB, p limiter.Params) limiter.Limit {
	t.Helper()
	l, err := limiter.New(p)
	if err != nil {
		t.Fatalf("New(%+v): %v", p, err)
	}
	return l
}

// randomInput returns the fuzz input of a seed.
func randomInput(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 30+r.IntN(600))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// addSeeds gives a fuzz target inputs to start from.
func addSeeds(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(randomInput(seed))
	}
}

// runRandom runs check on inputs of n new seeds, and names the failing one.
func runRandom(t *testing.T, n int, check func(testing.TB, []byte)) {
	t.Helper()
	if *seedFlag != 0 {
		check(t, randomInput(*seedFlag))
		return
	}
	for range n {
		seed := rand.Uint64() | 1
		check(seeded{t, seed}, randomInput(seed))
	}
}

// seeded adds the seed to the failure message.
type seeded struct {
	testing.TB
	seed uint64
}

func (s seeded) Fatalf(format string, args ...any) {
	s.Helper()
	s.TB.Fatalf("-seed=%d: "+format, append([]any{s.seed}, args...)...)
}
