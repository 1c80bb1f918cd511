package sqlite

import (
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite/internal/journal"
)

// A record of the journal has a change of one key of a limit, under the limit's ID in the database: the
// units added to up to two slots, or the new state of a token bucket and the time at which that expires.

// noted adds the records of changes of a key.
func noted(records []journal.Record, id storage.LimitID, key storage.Key, limit limiter.Limit,
	changes *limiter.Changes) []journal.Record {
	r := journal.Record{Limit: int64(id), Key: key, Bucket: !limit.CountsSlots()}
	if r.Bucket {
		b := changes.Bucket
		r.N = [4]int64{b.At, b.Units, b.Part, (&limiter.State{Bucket: b}).Expires(&limit, 0)}
		return append(records, r)
	}
	n := 0
	for _, slot := range changes.Slots {
		if slot.Used == 0 {
			continue
		}
		if n == len(r.N) {
			records = append(records, r)
			r.N, n = [4]int64{}, 0
		}
		r.N[n], r.N[n+1] = slot.Index, slot.Used
		n += 2
	}
	if n > 0 {
		records = append(records, r)
	}
	return records
}

// changesOf returns the changes in a record.
func changesOf(r *journal.Record) (changes limiter.Changes) {
	if r.Bucket {
		changes.Bucket = limiter.Bucket{At: r.N[0], Units: r.N[1], Part: r.N[2]}
		return changes
	}
	changes.Slots[0] = limiter.Slot{Index: r.N[0], Used: r.N[1]}
	changes.Slots[1] = limiter.Slot{Index: r.N[2], Used: r.N[3]}
	return changes
}
