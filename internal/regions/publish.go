package regions

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

// publishRows is how many rows are published in one call, with a few more at most.
const publishRows = 1000

// publishing holds the keys that have changed since they were last published.
type publishing struct {
	mu   sync.Mutex
	keys []*key // guarded by mu; each is dirty
}

func (p *publishing) add(k ...*key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, k...)
}

func (p *publishing) take() []*key {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := p.keys
	p.keys = nil
	return keys
}

// published is a row to publish, with its key.
type published struct {
	key *key
	exchange.Row
	units limiter.Slot
}

// publish publishes all changes, in several calls if there are many. The next turn retries
// failures.
func (r *Regions) publish(ctx context.Context) error {
	if err := r.publishBans(ctx); err != nil {
		return err
	}
	keys := r.publishing.take()
	untold := r.findUntold(ctx, keys)
	defer func() { r.markDirty(untold) }()
	for len(keys) > 0 {
		var rows []published
		var n int
		for n = 0; n < len(keys) && len(rows) < publishRows; n++ {
			rows = r.appendRows(rows, keys[n])
		}
		if err := r.publishRows(ctx, rows); err != nil {
			r.markDirty(keys)
			return err
		}
		keys = keys[n:]
	}
	return nil
}

// findUntold adds the units to keys that a process of this region has admitted and could not publish before it
// ended, or didn't have to. It returns the keys that have to wait for a later turn.
func (r *Regions) findUntold(ctx context.Context, keys []*key) (later []*key) {
	began := time.Now()
	for _, k := range keys {
		if !k.untold.Load() {
			continue
		}
		if !r.caughtUp || time.Since(began) > r.opts.Interval/untoldShare || !r.addUntold(ctx, k) {
			later = append(later, k)
			continue
		}
		k.untold.Store(false)
	}
	return later
}

// untoldShare is the part of an interval in which stores may be asked for units that aren't published.
const untoldShare = 2

// addUntold adds the units of a key of before the start that the store counts and nobody has published. It
// reports whether it could.
func (r *Regions) addUntold(ctx context.Context, k *key) bool {
	now := r.opts.Engine.Now()
	limit := k.inForce.Load()
	groups, slots := k.groups.Begins(&limit.Rate, now)
	k.mu.Lock()
	known := k.own.Units() // before the store is asked: what is admitted meanwhile may count twice, never not at all
	k.mu.Unlock()
	counted, err := r.opts.Engine.Counted(ctx, limit, []byte(k.text), slots)
	if err != nil {
		return false
	}
	others := k.others()
	if known = region.Sum(known, others.siblings); k.groups.IsBucket() {
		known = []limiter.Slot{{Index: groups[0],
			Used: k.groups.Level(limit.Rate, region.Sum(known, others.foreign), now)}}
	}
	last := k.groups.At(r.began) // later groups have only units of processes that are still there
	if after := slices.IndexFunc(groups, func(group int64) bool { return group > last }); after > 0 &&
		!k.groups.IsBucket() {
		for i := range after {
			counted[i] -= counted[after]
		}
		groups = groups[:after]
		known = slices.DeleteFunc(known, func(u limiter.Slot) bool { return u.Index > last })
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, u := range region.Missing(groups, counted, known) {
		k.own.Add(u.Index, u.Used)
	}
	return true
}

// appendRows appends a key's rows to publish.
func (r *Regions) appendRows(rows []published, k *key) []published {
	now := r.opts.Engine.Now()
	for _, units := range k.unpublished(now, r.others, len(r.machines)) {
		key, ok := r.opts.Name(k.limit.ID, []byte(k.text), k.periodOf(units.Index))
		if !ok {
			continue
		}
		rows = append(rows, published{key: k, units: units, Row: exchange.Row{
			Limit: k.limit.ID, Key: key, Group: units.Index, Component: r.me,
			Units: units.Used, Expires: k.groups.Expires(units.Index),
		}})
	}
	return rows
}

// publishRows publishes rows, and then marks them.
func (r *Regions) publishRows(ctx context.Context, rows []published) error {
	if len(rows) == 0 {
		return nil
	}
	// a common order, so that concurrent writers never wait for each other
	slices.SortFunc(rows, func(a, b published) int {
		return cmp.Or(cmp.Compare(a.Limit, b.Limit), bytes.Compare(a.Key[:], b.Key[:]), cmp.Compare(a.Group, b.Group))
	})
	batch := make([]exchange.Row, len(rows))
	for i := range rows {
		batch[i] = rows[i].Row
	}
	if err := callWithin(ctx, callTimeout,
		func(ctx context.Context) error { return r.exchange.Publish(ctx, batch, nil) }); err != nil {
		return err
	}
	for i := range rows {
		k := rows[i].key
		k.mu.Lock()
		k.own.Published(rows[i].units)
		k.mu.Unlock()
	}
	r.opts.Observer.Published(len(rows))
	return nil
}

// markDirty schedules keys for publishing.
func (r *Regions) markDirty(keys []*key) {
	r.publishing.add(slices.DeleteFunc(keys, func(k *key) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		was := k.dirty || k.dead
		k.dirty = k.dirty || !k.dead
		return was
	})...)
}

// publishAgain schedules everything for publishing, to an exchange that doesn't have it.
func (r *Regions) publishAgain() {
	keys := r.table.all()
	for _, k := range keys {
		k.mu.Lock()
		k.own.Unpublish()
		k.mu.Unlock()
	}
	r.markDirty(keys)
	r.bans.unpublish(nil)
}

// publishBans publishes new bans and lifts.
func (r *Regions) publishBans(ctx context.Context) error {
	for {
		list := r.bans.takeUnpublished()
		if len(list) == 0 {
			return nil
		}
		slices.SortFunc(list, func(a, b exchange.Ban) int {
			return cmp.Or(bytes.Compare(a.Key[:], b.Key[:]), cmp.Compare(a.Region, b.Region))
		})
		if err := callWithin(ctx, callTimeout,
			func(ctx context.Context) error { return r.exchange.Publish(ctx, nil, list) }); err != nil {
			r.bans.unpublish(list)
			return err
		}
	}
}

// nameOfBanned names a client for the exchange. Bans last long, so the name never changes.
func (r *Regions) nameOfBanned(client []byte) (storage.Key, bool) {
	return r.opts.Name(0, client, -1)
}
