package pressure

import (
	"fmt"
	"time"
)

// Defaults of [Options], and the bound of a set.
const (
	DefaultFingerprints = 20
	DefaultWithin       = 10 * time.Minute
	DefaultSqueeze      = time.Hour
	DefaultMaxSqueeze   = 24 * time.Hour
	DefaultMaxPrefixes  = 1 << 16

	MaxFingerprints = 31
)

// Options say when a network is squeezed and for how long. The zero value is
// usable: 0 is the default of that name.
type Options struct {
	Fingerprints int           // more than so many are too many: 1 to MaxFingerprints
	Within       time.Duration // if they come within so long
	Squeeze      time.Duration // how long the first squeeze lasts; each after it twice as long
	MaxSqueeze   time.Duration // how long one lasts at most, and for how long it counts as one before
	MaxPrefixes  int           // how many networks are watched at once
}

func (o Options) withDefaults() Options {
	if o.Fingerprints == 0 {
		o.Fingerprints = DefaultFingerprints
	}
	if o.Within == 0 {
		o.Within = DefaultWithin
	}
	if o.Squeeze == 0 {
		o.Squeeze = DefaultSqueeze
	}
	if o.MaxSqueeze == 0 {
		o.MaxSqueeze = max(DefaultMaxSqueeze, o.Squeeze)
	}
	if o.MaxPrefixes == 0 {
		o.MaxPrefixes = DefaultMaxPrefixes
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Fingerprints < 1 || o.Fingerprints > MaxFingerprints:
		return fmt.Errorf("pressure: fingerprints must be between 1 and %d, got %d", MaxFingerprints, o.Fingerprints)
	case o.Within < time.Second || o.Within > 24*time.Hour:
		return fmt.Errorf("pressure: they must be counted within 1s to 24h, got %v", o.Within)
	case o.Squeeze < time.Second:
		return fmt.Errorf("pressure: a squeeze must last at least 1s, got %v", o.Squeeze)
	case o.MaxSqueeze < o.Squeeze || o.MaxSqueeze > 24*time.Hour:
		return fmt.Errorf("pressure: the longest squeeze must be between the first one (%v) and 24h, got %v", o.Squeeze, o.MaxSqueeze)
	case o.MaxPrefixes < shards:
		return fmt.Errorf("pressure: at least %d networks must be watched, got %d", shards, o.MaxPrefixes)
	}
	return nil
}

// squeeze returns how long a network is squeezed that was squeezed so often in a
// row, this time included.
func (o Options) squeeze(times int) time.Duration {
	d := o.Squeeze
	for ; times > 1 && d < o.MaxSqueeze; times-- {
		d *= 2
	}
	return min(d, o.MaxSqueeze)
}
