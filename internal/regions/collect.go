package regions

import (
	"context"
	"math"
	"slices"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

const (
	collectRows = 2000 // rows per call
	collectMost = 200  // calls per turn; the rest waits for the next turn
	applyRows   = 200  // rows applied at once while requests of new keys wait
)

// collect collects new rows and applies them.
func (r *Regions) collect() error {
	rows, applied, made := 0, 0, 0
	defer func() {
		r.opts.Observer.Collected(rows, applied, made)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state.polled = rows
	}()
	for range collectMost {
		var news exchange.News
		err := r.call(func(ctx context.Context) (err error) {
			news, err = r.exchange.Collect(ctx, r.me, r.after, collectRows)
			return err
		})
		if err != nil {
			return err
		}
		rows += len(news.Rows)
		a, m := r.apply(news.Rows)
		applied, made = applied+a, made+m
		r.bans.learn(news.Bans, r.me.Region, r.exchangeTime(r.opts.Engine.Now()))
		r.after = max(r.after, news.Seq)
		if !news.More {
			r.caughtUp = true
			return nil
		}
	}
	return nil
}

// apply applies rows. It returns the number of rows with new information, and the number of new
// names.
func (r *Regions) apply(rows []exchange.Row) (applied, made int) {
	now := r.opts.Engine.Now()
	for from := 0; from < len(rows); from += applyRows {
		a, m, changed := r.table.apply(rows[from:min(from+applyRows, len(rows))], r.me, now)
		applied, made = applied+a, made+m
		for k, by := range changed {
			if k.groups.IsBucket() && by.units > 0 {
				r.charge(k, by, now)
			}
			r.markDirty([]*key{k}) // if others use the key, every change is published
		}
	}
	return applied, made
}

// charge charges a token bucket with the units that other regions have newly taken. One machine of
// the region does so: of those that use the key, the one that started last. So a process that was killed is no
// longer asked when it has started again.
func (r *Regions) charge(k *key, by growth, now int64) {
	if !r.caughtUp { // the store may have been charged before the last start
		r.chargeLevel(k, now)
		return
	}
	used, last := k.isUsed(now), r.lastOf(by.users)
	switch {
	case used && r.me.Machine >= last:
		limit := k.inForce.Load()
		units := min(by.units, region.MostCharged(limit.Rate))
		r.opts.Engine.Charge(limit, []byte(k.text), limiter.Charge{Units: units})
	case !used && last == math.MinInt64: // no machine uses the key at the moment
		k.behind.Store(true)
	}
}

// lastOf returns the present machine that started last among some of this region, or the smallest number if
// none is present.
func (r *Regions) lastOf(machines []int64) int64 {
	for _, m := range slices.Backward(machines) {
		if slices.Contains(r.machines, m) {
			return m
		}
	}
	return math.MinInt64
}

// growth is the increase of other regions' units of a key, and the other machines of this region
// that use the key.
type growth struct {
	units int64
	users []int64
}

// apply applies rows, and returns the keys with new information.
func (t *table) apply(rows []exchange.Row, me region.Component, now int64) (applied, made int, grown map[*key]growth) {
	grown = make(map[*key]growth)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range rows {
		row := &rows[i]
		if row.Component == me || row.Expires <= now {
			continue
		}
		entry, isNew := t.nameLocked(name{row.Limit, row.Key})
		if entry == nil {
			continue
		}
		if isNew {
			made++
		}
		grew := entry.counts.Take(row.Component, row.Group, row.Units, row.Expires)
		if grew <= 0 {
			continue
		}
		applied++
		if entry.key != nil {
			by := grown[entry.key]
			if row.Region != me.Region {
				by.units += grew
			}
			grown[entry.key] = by
		}
	}
	for k, by := range grown {
		t.refreshLocked(k, me.Region)
		if k.groups.IsBucket() {
			by.users = t.usersLocked(k, me.Region, now)
			grown[k] = by
		}
	}
	return applied, made, grown
}

// nameLocked returns the entry of a name, adding it if there is room, or nil.
func (t *table) nameLocked(at name) (entry *named, made bool) {
	if entry = t.names[at]; entry != nil || int64(len(t.names)) >= namesPerKey*t.max {
		return entry, false
	}
	entry = new(named)
	t.names[at] = entry
	return entry, true
}

// usersLocked returns the other machines of a region that use a key, in ascending order.
func (t *table) usersLocked(k *key, home string, now int64) (machines []int64) {
	for _, key := range k.names {
		machines = append(machines, t.names[name{k.limit.ID, key}].counts.Users(home, now)...)
	}
	slices.Sort(machines)
	return machines
}
