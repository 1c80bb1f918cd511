package memory

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
)

// stepLooks is about how many entries a step of a sweep examines, give or take one shard. A step deletes at most
// maxDeleted.
const (
	stepLooks  = 500
	maxDeleted = 1000
)

// Sweep implements [storage.Store]. It continues where the previous step stopped, also on another store. A token bucket
// is kept until it has drained at the amount of its last claim.
func (s *Store) Sweep(ctx context.Context, term *storage.Term) (swept storage.Swept, err error) {
	err = s.with(ctx, "sweep", func(db *Database) error {
		t, err := s.enterLocked(term)
		if err == nil {
			swept = db.sweepLocked(t)
		}
		return err
	})
	if err == nil && !swept.More {
		err = s.sweepRows(ctx, term.Time.Now)
	}
	return swept, err
}

// sweepLocked performs one step.
func (db *Database) sweepLocked(t storage.Time) (swept storage.Swept) {
	for looked := 0; looked < stepLooks; db.next++ {
		if db.next == shards {
			db.next = 0
			db.sweepResetsLocked(t)
			return swept
		}
		sh := &db.shards[db.next]
		looked += len(sh.states) + len(sh.clients)
		swept.Rows += db.sweepShardLocked(sh, t, maxDeleted-swept.Rows)
		if swept.Rows >= maxDeleted {
			break // the next step examines this shard again
		}
	}
	swept.More = true
	return swept
}

// sweepShardLocked deletes at most most expired entries of a shard.
func (db *Database) sweepShardLocked(sh *shard, now storage.Time, most int64) (deleted int64) {
	for owner, ref := range sh.states {
		if expiresOf(db.counts.Get(ref)) <= now.Now && deleted < most {
			db.removeLocked(owner)
			deleted++
		}
	}
	for key, r := range sh.clients {
		if r.Expires() <= now.Now-now.Shift && deleted < most {
			db.bytes -= bytesOf(r)
			delete(sh.clients, key)
			deleted++
		}
	}
	if len(sh.states) == 0 {
		sh.states = nil
	}
	if len(sh.clients) == 0 {
		sh.clients = nil
	}
	return deleted
}
