//go:build unix

package sqlite

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// The limits that the processes share, by index.
const (
	shortSliding = iota
	shortFixed
	shortBucket
	fewSliding
	longerFixed
	longSliding
	longBucket
	small
)

var sharedLimits = []admissions.Limit{
	shortSliding: admissions.Sliding(20, 2*time.Second),
	shortFixed:   admissions.Fixed(30, 3*time.Second),
	shortBucket:  admissions.TokenBucket(20, time.Second, 40),
	fewSliding:   admissions.Sliding(10, time.Second),
	longerFixed:  admissions.Fixed(60, 20*time.Second),
	longSliding:  admissions.Sliding(1000, 24*time.Hour),
	longBucket:   admissions.TokenBucket(100, 24*time.Hour, 300),
	small:        admissions.Sliding(5, time.Minute),
}

// errand is a kind of request: its limits and cost, its frequency, and its keys.
type errand struct {
	limits []int
	most   int64 // the highest cost
	share  int   // of the requests, in percent
	// key returns a key of a round; n numbers the request.
	key func(rng *rand.Rand, round string, n int64) string
}

// errands are the kinds of requests. Some keys are always at their limits, some are rare, and some
// occur once. The key of the errand whose name begins with "spent" soon has spent its limit.
var errands = []errand{
	{[]int{shortSliding}, 3, 15, oneKeyOf("s", 3)},
	{[]int{shortFixed}, 2, 15, oneKeyOf("f", 3)},
	{[]int{shortBucket}, 3, 15, oneKeyOf("b", 3)},
	{[]int{fewSliding, longerFixed}, 1, 10, oneKeyOf("two", 3)},
	{[]int{fewSliding, longSliding}, 3, 15, oneKeyOf("long", 4)},
	{[]int{longSliding}, 3, 3, oneKeyOf("spent", 1)},
	{[]int{longBucket, longSliding}, 2, 5, oneKeyOf("drain", 2)},
	{[]int{longSliding}, 1, 2, func(*rand.Rand, string, int64) string { return "in all rounds" }},
	{[]int{small}, 2, 15, oneKeyOf("rare", 2000)},
	{[]int{small}, 1, 5, func(_ *rand.Rand, round string, n int64) string { return fmt.Sprintf("%s new%x", round, n) }},
}

func oneKeyOf(name string, keys int) func(*rand.Rand, string, int64) string {
	return func(rng *rand.Rand, round string, _ int64) string {
		return fmt.Sprintf("%s %s%d", round, name, rng.IntN(keys))
	}
}

// anErrand returns a random errand.
func anErrand(rng *rand.Rand) int {
	n := rng.IntN(100)
	for i, e := range errands {
		if n -= e.share; n < 0 {
			return i
		}
	}
	panic("the shares are less than 100")
}

// engineLimits returns the limits for an engine.
func engineLimits() (limits []*engine.Limit, err error) {
	for i, l := range sharedLimits {
		algorithm, err := limiter.ParseAlgorithm(l.Algorithm)
		if err != nil {
			return nil, err
		}
		limit, err := limiter.New(limiter.Params{Algorithm: algorithm, Amount: l.Amount, Window: l.Window, Burst: l.Burst})
		if err != nil {
			return nil, err
		}
		limits = append(limits, &engine.Limit{ID: storage.LimitID(i) + 1, Rate: limit})
	}
	return limits, nil
}

// debitsOf returns the debits of an errand.
func debitsOf(limits []*engine.Limit, e errand, key string, cost int64) (debits []engine.Debit) {
	for _, l := range e.limits {
		debits = append(debits, engine.Debit{Limit: limits[l], Key: []byte(key), Cost: cost})
	}
	return debits
}

// said is a line about an admission, written at once.
type said struct {
	errand   int
	key      string
	degraded bool
	admissions.Admission
}

func (s said) String() string {
	return fmt.Sprintf("%d %d %d %d %t %s\n", s.errand, s.Cost, s.Sent, s.Answered, s.degraded, s.key)
}

// parseSaid parses a line without its end.
func parseSaid(line string) (s said, err error) {
	const fields = 5
	at := 0
	for range fields {
		for at < len(line) && line[at] != ' ' {
			at++
		}
		at++
	}
	if at > len(line) {
		return s, fmt.Errorf("expected %d fields and a key: %q", fields, line)
	}
	s.key = line[at:]
	_, err = fmt.Sscan(line[:at], &s.errand, &s.Cost, &s.Sent, &s.Answered, &s.degraded)
	return s, err
}
