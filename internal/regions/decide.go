package regions

import (
	"context"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Decide decides as [engine.Engine.Decide] does, but includes the units that other regions have
// admitted, and counts the units that it admits for them.
func (r *Regions) Decide(ctx context.Context, client *engine.Client, debits []engine.Debit) engine.Decision {
	now := r.opts.Engine.Now()
	r.followBans(ctx, client, now)
	r.lower(debits, now)
	d := r.opts.Engine.Decide(ctx, client, debits)
	switch {
	case d.Allowed:
		r.admitted(debits, now)
	case d.Reason == engine.Banned && d.Fresh:
		r.publishBan(client, now)
	}
	return d
}

// Lower adds the units that other regions have admitted to debits.
func (r *Regions) Lower(debits []engine.Debit) { r.lower(debits, r.opts.Engine.Now()) }

func (r *Regions) lower(debits []engine.Debit, now int64) {
	for i := range debits {
		if k := r.keyOf(&debits[i], now); k != nil {
			debits[i].Foreign = k
		}
	}
}

// admitted counts the debits of an admitted request.
func (r *Regions) admitted(debits []engine.Debit, now int64) {
	for i := range debits {
		d := &debits[i]
		if k, shared := d.Foreign.(*key); shared && d.Cost > 0 && d.Pending == nil {
			k.Admit(d.Cost, now)
			if k.untold.Load() && d.Known && d.Limit.Capacity()-d.Quota.Remaining <= d.Cost {
				k.untold.Store(false) // the store counts nothing else
			}
		}
	}
}

// Admit implements [engine.Foreign].
func (k *key) Admit(units, now int64) {
	for r := k.regions; k != nil; k = r.make(k, now) { // the key was dropped meanwhile
		ok, dirty := k.admit(units, now)
		if dirty {
			r.publishing.add(k)
		}
		if ok {
			return
		}
	}
}

// keyOf returns the key of a debit, adding it if necessary. It returns nil if the limit stays
// regional or there are too many keys.
func (r *Regions) keyOf(d *engine.Debit, now int64) *key {
	if d.Limit.Window() < region.MinWindow || d.Cost <= 0 {
		return nil
	}
	k := r.table.find(d.Limit.ID, d.Key)
	if k == nil {
		like := newKey(d)
		if like == nil {
			return nil
		}
		return r.make(like, now)
	}
	k.follow(d)
	if k.periodAt(now) != k.period.Load() {
		r.rename(k, now)
	}
	if k.behind.Load() && k.behind.Swap(false) {
		r.chargeLevel(k, now)
	}
	return k
}

// make adds a key like another one to the table, or returns the existing one. It returns nil if
// there are too many, or the key can't have a name yet.
func (r *Regions) make(like *key, now int64) *key {
	k := &key{regions: r, limit: like.limit, text: like.text, groups: like.groups}
	k.inForce.Store(like.inForce.Load())
	k.least.Store(like.least.Load())
	names, ok := r.namesOf(k, now)
	if !ok {
		return nil
	}
	if oldest := k.groups.Oldest(now); k.groups.At(r.began) >= oldest {
		k.untold.Store(true)
		k.dirty = true
	}
	k, made := r.table.add(k, k.periodAt(now), names, r.me.Region)
	switch {
	case k == nil:
		r.untracked.Add(1)
	case made:
		r.chargeLevel(k, now)
		if k.untold.Load() {
			r.publishing.add(k)
		}
	}
	return k
}

// rename gives a key the names of the present period.
func (r *Regions) rename(k *key, now int64) {
	if names, ok := r.namesOf(k, now); ok {
		r.table.mu.Lock()
		defer r.table.mu.Unlock()
		r.table.bindLocked(k, k.periodAt(now), names, r.me.Region)
	}
}

// namesOf returns the names of a key in all groups that count. It returns false if they aren't
// available yet.
func (r *Regions) namesOf(k *key, now int64) (names []storage.Key, ok bool) {
	for period := k.periodOf(k.groups.Oldest(now)); period <= k.periodAt(now); period++ {
		name, ok := r.opts.Name(k.limit.ID, []byte(k.text), period)
		if !ok {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// chargeLevel charges a token bucket with the units that other regions took before any of them was
// charged here, unless the store already knows of them.
func (r *Regions) chargeLevel(k *key, now int64) {
	if !k.groups.IsBucket() {
		return
	}
	limit := k.inForce.Load()
	if level := k.groups.Level(limit.Rate, k.others().foreign, now); level > 0 {
		r.opts.Engine.Charge(limit, []byte(k.text), limiter.Charge{Units: level, Floor: true})
	}
}
