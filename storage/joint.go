package storage

import (
	"context"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Joint is a store that reads records and answers claims in one call: in one transaction, and
// on a network in one round trip.
type Joint interface {
	Timekeeper

	// ClaimFor is Records and Claim within a term, as of one time. Claims don't depend
	// on the records that are read: the caller has chosen their limits. It finds out afterwards
	// whether it would have chosen others, and claims again then. There may be no clients, or no
	// claims. Its errors are those of Claim.
	ClaimFor(ctx context.Context, term *Term, clients []Client, records []reputation.Record, claims []Claim, grants []limiter.Grant) error
}
