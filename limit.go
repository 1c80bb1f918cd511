package tally

import (
	"fmt"
	"time"
	_ "time/tzdata" // for machines and containers without time zones

	"github.com/caddy-tally/caddy-tally/limiter"
)

// compile returns the limit ready for arithmetic, or an error that names the
// value that is wrong and what is expected.
func (l Limit) compile() (limiter.Limit, error) {
	algorithm, err := l.algorithm()
	if err != nil {
		return limiter.Limit{}, err
	}
	location, err := l.location()
	if err != nil {
		return limiter.Limit{}, err
	}
	return limiter.New(limiter.Params{
		Algorithm: algorithm,
		Amount:    l.Amount,
		Window:    time.Duration(l.Window),
		Burst:     l.Burst,
		Slots:     l.Slots,
		Location:  location,
	})
}

// location returns the time zone that the limit names, or nil. The zone of the
// machine is none: on another machine it would be another.
func (l Limit) location() (*time.Location, error) {
	if l.Timezone == "" {
		return nil, nil
	}
	location, err := time.LoadLocation(l.Timezone)
	if err != nil || location == time.Local {
		return nil, fmt.Errorf("unknown timezone %q: expected a name such as Europe/Berlin or America/New_York", l.Timezone)
	}
	return location, nil
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
	return 0, fmt.Errorf("unknown algorithm %q: expected sliding, fixed or token_bucket", l.Algorithm)
}
