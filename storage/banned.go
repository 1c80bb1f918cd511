package storage

import (
	"context"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// BanLister is a store that lists who is banned, for operators. It reads all records, a bounded
// number at a time, and no claim waits for it.
type BanLister interface {
	// Banned returns the records of clients whose ban lasts at now, at most most of them. Clients
	// that are renamed meanwhile may be missing. now and the times in the records are as if the time
	// of the store had never been set: Now less Shift, see [Time].
	Banned(ctx context.Context, now int64, most int) (map[Key]reputation.Record, error)
}
