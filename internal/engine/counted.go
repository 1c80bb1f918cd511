package engine // operators

import (
	"context"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Counted returns how many units of a key the store counts, except those that this process holds unspent. For
// a limit with slots it returns that for each of from, which are slots in ascending order: the units of this
// slot and later ones. For a token bucket it returns the same number for each. It charges nothing.
func (e *Engine) Counted(ctx context.Context, limit *Limit, key []byte, from []int64) (units []int64, err error) {
	err = e.committer.queue.run(ctx, func() error {
		units, err = e.committer.counted(limit, key, from)
		return err
	})
	return units, err
}

func (cm *committer) counted(limit *Limit, key []byte, from []int64) (units []int64, err error) {
	if b := cm.queue.take(); b != nil {
		cm.commit(b) // units on their way to the store would be missing
	}
	_, err = cm.conn.inTerms(func(store storage.Store, term *storage.Term) error {
		name, err := cm.conn.nameOf(limit.ID, string(key), limit.Retention(), term, term.Time.Now)
		if err != nil {
			return err
		}
		// Each claim gives back the units that the next ones no longer count. The store forgets all of that.
		claim := storage.Claim{ID: limit.ID, Key: name.Key, Former: name.Former, Limit: limit.Rate}
		claim.Now, claim.Return = term.Time.Now, cm.table.heldOf(limit.ID, key)
		claims, last := []storage.Claim{claim}, make([]int, len(from))
		for i, next := 0, int64(0); limit.CountsSlots() && i < len(from); i++ {
			if i == 0 {
				next = limit.Oldest(term.Time.Now)
			}
			for ; next < from[i]; next += min(from[i]-next, limiter.MaxSpan+1) {
				claim.Return = emptied(next, min(from[i]-next, limiter.MaxSpan+1))
				claims = append(claims, claim)
			}
			last[i] = len(claims) - 1
		}
		if len(claims) > cm.conn.maxBatch() { // of thousands of slots
			claims, last = claims[:1], make([]int, len(from)) // each counts for as long as the newest
		}
		grants := make([]limiter.Grant, len(claims))
		ctx, cancel := cm.conn.call()
		defer cancel()
		if err := store.Probe(ctx, term, claims, grants); err != nil {
			return err
		}
		units = make([]int64, len(from))
		for i := range units {
			units[i] = grants[last[i]].InUse()
		}
		return nil
	})
	return units, err
}

// emptied is a lease that takes all units out of slots when it is given back.
func emptied(first, slots int64) limiter.Lease {
	units := slots * 2 * limiter.MaxAmount
	return limiter.Lease{At: first + slots - 1, Span: slots - 1, Units: units, Used: units}
}

// heldOf returns the lease that memory has of a key.
func (t *cells) heldOf(id storage.LimitID, key []byte) (held limiter.Lease) {
	c := t.find(id, key)
	if !c.exists() {
		return held
	}
	c = c.lockPresent()
	defer c.Unlock()
	return c.leaseLocked()
}
