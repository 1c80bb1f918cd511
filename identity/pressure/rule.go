package pressure

import (
	"fmt"
	"time"
)

// Defaults of a [Rule], and the bound of a set.
const (
	DefaultFingerprints = 20
	DefaultWithin       = 10 * time.Minute

	MaxFingerprints = 31
)

// Rule says how many clients are too many.
type Rule struct {
	Fingerprints int           // more than so many, from 1 to MaxFingerprints
	Within       time.Duration // if they come within so long, from 1s to 24h
}

// Check returns an error about a rule that can't be.
func (r Rule) Check() error {
	switch {
	case r.Fingerprints < 1 || r.Fingerprints > MaxFingerprints:
		return fmt.Errorf("pressure: fingerprints must be between 1 and %d, got %d", MaxFingerprints, r.Fingerprints)
	case r.Within < time.Second || r.Within > 24*time.Hour:
		return fmt.Errorf("pressure: within must be between 1s and 24h, got %v", r.Within)
	}
	return nil
}
