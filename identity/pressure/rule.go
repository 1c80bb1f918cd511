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

// Rule bounds the number of different clients of a network.
type Rule struct {
	Fingerprints int           // the maximum, from 1 to MaxFingerprints
	Within       time.Duration // the time in which they come, from 1s to 24h
}

// Check returns an error if the rule is out of range.
func (r Rule) Check() error {
	switch {
	case r.Fingerprints < 1 || r.Fingerprints > MaxFingerprints:
		return fmt.Errorf("pressure: fingerprints must be between 1 and %d, got %d", MaxFingerprints, r.Fingerprints)
	case r.Within < time.Second || r.Within > 24*time.Hour:
		return fmt.Errorf("pressure: within must be between 1s and 24h, got %v", r.Within)
	}
	return nil
}
