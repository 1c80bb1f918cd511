package tally

import (
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// compile returns the limit ready for arithmetic, or an error that names the
// value that is wrong and what would do.
func (l Limit) compile() (limiter.Limit, error) {
	algorithm, err := l.algorithm()
	if err != nil {
		return limiter.Limit{}, err
	}
	return limiter.New(limiter.Params{
		Algorithm: algorithm,
		Amount:    l.Amount,
		Window:    time.Duration(l.Window),
		Burst:     l.Burst,
		Slots:     l.Slots,
	})
}

// algorithm returns what the word means; without a word, a burst makes the
// limit a token bucket.
func (l Limit) algorithm() (limiter.Algorithm, error) {
	switch {
	case l.Algorithm == "" && l.Burst != 0:
		return limiter.TokenBucket, nil
	case l.Algorithm == "":
		return limiter.Sliding, nil
	}
	for _, a := range []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket} {
		if l.Algorithm == a.String() {
			return a, nil
		}
	}
	return 0, fmt.Errorf("unknown algorithm %q: sliding, fixed or token_bucket would do", l.Algorithm)
}
