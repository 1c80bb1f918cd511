package engine // operators

import (
	"bytes"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// usedIDs are the ids of charges that were used up lately, the oldest first. If the store has lost its data, they
// are used up in it again, as the units of the charges are charged again (catchup.go). Only the committer's
// goroutine uses them.
type usedIDs struct{ list []usedID }

type usedID struct {
	*Debit
	at int64
}

// The bounds of usedIDs.
const (
	maxUsedIDs  = 10_000
	keepUsedIDs = int64(5 * time.Minute)
)

func (u *usedIDs) add(id *Debit, now int64) {
	expired := 0
	for expired < len(u.list) && (len(u.list)-expired >= maxUsedIDs || u.list[expired].at <= now-keepUsedIDs) {
		expired++
	}
	u.list = append(slices.Delete(u.list, 0, expired), usedID{id, now})
}

// drop removes an id that is free again.
func (u *usedIDs) drop(id *Debit) {
	u.list = slices.DeleteFunc(u.list, func(used usedID) bool {
		return used.Limit.ID == id.Limit.ID && bytes.Equal(used.Key, id.Key)
	})
}

// replayIDs uses up the ids in another store, as far as they aren't.
func (cm *committer) replayIDs(now int64) error {
	var claims []direct
	for _, id := range cm.ids.list {
		if id.at > now-keepUsedIDs {
			claims = append(claims,
				direct{id.Debit,
					limiter.Claim{Charge: limiter.Charge{At: id.Limit.Slot(now), Units: id.Cost, Floor: true}}})
		}
	}
	for some := range slices.Chunk(claims, min(cm.conn.maxBatch(), flushSize)) {
		if _, err := cm.sendDirectly(some, storage.Store.Claim); err != nil {
			return err
		}
	}
	return nil
}
