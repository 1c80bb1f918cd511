package regions

import (
	"context"
	"slices"
	"time"
)

// trimSometimes removes expired data, here and in the exchange, about once a minute.
func (r *Regions) trimSometimes() {
	if time.Since(r.swept) < sweepEvery {
		return
	}
	r.swept = time.Now()
	now := r.opts.Engine.Now()
	r.trim(now)
	r.bans.trim(now)
	if r.exchange != nil {
		// A later sweep, by this machine or another one, deletes the rest.
		_ = r.call(func(ctx context.Context) error { return r.exchange.Sweep(ctx) })
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
