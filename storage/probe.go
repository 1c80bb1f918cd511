package storage

import (
	"context"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// Prober is a store that can forecast its answers.
type Prober interface {
	Timekeeper

	// Probe answers claims as Claim would within the term, and charges nothing. Its errors
	// are those of Claim.
	Probe(ctx context.Context, term *Term, claims []Claim, grants []limiter.Grant) error
}
