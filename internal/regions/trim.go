package regions

import (
	"context"
	"slices"
	"time"
)

// trimSometimes removes expired data about once a minute: here, and in the exchange until nothing is left.
// That goes on in the next turns if it takes too long.
func (r *Regions) trimSometimes() {
	began := time.Now()
	if began.Sub(r.swept) >= sweepEvery {
		r.swept, r.unswept = began, true
		now := r.opts.Engine.Now()
		r.trim(now)
		r.bans.trim(r.exchangeTime(now))
	}
	for r.unswept && r.exchange != nil && time.Since(began) < r.opts.Interval/sweepShare {
		err := r.call(func(ctx context.Context) (err error) {
			r.unswept, err = r.exchange.Sweep(ctx)
			return err
		})
		if err != nil {
			return // the next turn repeats it
		}
	}
}

// trim removes expired groups, and keys without units.
func (r *Regions) trim(now int64) {
	t := r.table
	t.trimNames(now)
	for _, k := range t.all() {
		t.mu.Lock()
		used := k.isKnown()
		if used {
			t.refreshLocked(k, r.me.Region)
			used = k.isKnown()
		}
		k.mu.Lock()
		if left := k.own.Trim(k.groups.Oldest(now)); !left && !used && !k.dirty {
			k.dead = true
			t.removeLocked(k)
		}
		k.mu.Unlock()
		t.mu.Unlock()
	}
}

// trimNames removes expired groups, and names that have neither counts nor a key.
func (t *table) trimNames(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, entry := range t.names {
		if entry.counts.Trim(now) {
			continue
		}
		if entry.key == nil || !slices.Contains(entry.key.names, id.key) {
			delete(t.names, id)
		}
	}
}
