package regions

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/caddy-tally/caddy-tally/limiter"
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
	slices.SortFunc(rows, func(a, b published) int { // a common order, so that concurrent writers never wait for each other
		return cmp.Or(cmp.Compare(a.Limit, b.Limit), bytes.Compare(a.Key[:], b.Key[:]), cmp.Compare(a.Group, b.Group))
	})
	batch := make([]exchange.Row, len(rows))
	for i := range rows {
		batch[i] = rows[i].Row
	}
	if err := callWithin(ctx, callTimeout, func(ctx context.Context) error { return r.exchange.Publish(ctx, batch, nil) }); err != nil {
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
	r.bans.publishAgain()
}

// publishBans publishes new bans.
func (r *Regions) publishBans(ctx context.Context) error {
	for {
		list := r.bans.unpublished(r.me.Region)
		if len(list) == 0 {
			return nil
		}
		slices.SortFunc(list, func(a, b exchange.Ban) int { return bytes.Compare(a.Key[:], b.Key[:]) })
		if err := callWithin(ctx, callTimeout, func(ctx context.Context) error { return r.exchange.Publish(ctx, nil, list) }); err != nil {
			return err
		}
		r.bans.published(list)
	}
}

// nameOfBanned names a client for the exchange. Bans last long, so the name never changes.
func (r *Regions) nameOfBanned(client []byte) (storage.Key, bool) {
	return r.opts.Name(0, client, -1)
}
