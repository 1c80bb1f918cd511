package regions

import (
	"context"

	"github.com/caddy-tally/caddy-tally/exchange"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
)

const (
	collectRows = 2000 // are collected in one call
	collectMost = 50   // calls in one turn; the rest comes the next time
	applyRows   = 200  // are applied while requests of new keys wait
)

// collect collects what is new, and takes it into account.
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
		r.bans.learn(news.Bans, r.me.Region, r.opts.Engine.Now())
		r.after = max(r.after, news.Seq)
		if !news.More {
			r.caughtUp = true
			return nil
		}
	}
	return nil
}

// apply takes rows into account. It returns how many said something new, and how many names came
// to be known by them.
func (r *Regions) apply(rows []exchange.Row) (applied, made int) {
	for from := 0; from < len(rows); from += applyRows {
		a, m, changed := r.table.apply(rows[from:min(from+applyRows, len(rows))], r.me, r.opts.Engine.Now())
		applied, made = applied+a, made+m
		for k, grew := range changed {
			r.tookElsewhere(k, grew)
		}
	}
	return applied, made
}

// tookElsewhere does what follows when other regions have admitted more of a key than was known:
// a bucket is charged, and from now on this region publishes every change.
func (r *Regions) tookElsewhere(k *key, grew int64) {
	switch {
	case grew <= 0 || !k.groups.IsBucket():
	case !r.caughtUp: // the store may know of it from before the last start
		r.chargeLevel(k, r.opts.Engine.Now())
	default:
		grew = min(grew, k.limit.Capacity()) // after an outage of the exchange nobody waits for longer than it takes to refill twice
		r.opts.Engine.Charge(k.limit, []byte(k.text), limiter.Charge{Units: grew})
	}
	r.markDirty([]*key{k})
}

// apply takes rows into account, and returns by how much other regions' units of each key have
// grown.
func (t *table) apply(rows []exchange.Row, me region.Component, now int64) (applied, made int, grown map[*key]int64) {
	grown = make(map[*key]int64)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range rows {
		row := &rows[i]
		if row.Component == me || row.Expires <= now {
			continue
		}
		at := name{row.Limit, row.Key}
		of := t.names[at]
		if of == nil {
			if int64(len(t.names)) >= namesPerKey*t.max {
				continue
			}
			of = new(named)
			t.names[at] = of
			made++
		}
		grew := of.counts.Take(row.Component, row.Group, row.Units, row.Expires)
		if grew <= 0 {
			continue
		}
		applied++
		if of.key != nil {
			if row.Region == me.Region {
				grew = 0
			}
			grown[of.key] += grew
		}
	}
	for k := range grown {
		t.refreshLocked(k, me.Region)
	}
	return applied, made, grown
}
