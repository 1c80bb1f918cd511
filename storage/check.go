package storage

import (
	"fmt"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// CheckClaims returns an error if a batch is malformed: there isn't one grant for each claim, or a
// claim has no limit.
func CheckClaims(claims []Claim, grants []limiter.Grant) error {
	if len(claims) != len(grants) {
		return fmt.Errorf("%d claims need as many grants, got %d", len(claims), len(grants))
	}
	for i := range claims {
		if claims[i].Limit.Amount() == 0 {
			return fmt.Errorf("claim %d has no limit", i)
		}
	}
	return nil
}

// CheckRecords returns an error if a call with some clients or offenses has no room for their records.
func CheckRecords(clients int, records []reputation.Record) error {
	if clients != len(records) {
		return fmt.Errorf("%d clients need as many records, got %d", clients, len(records))
	}
	return nil
}
